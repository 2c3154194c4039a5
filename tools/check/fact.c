/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/check/fact.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As it goes through the pipe from a child. */
struct fact {
    enum oxdp_verdict verdict;
    char about[16];
    char name[16];
    char text[768];
    char todo[2048];
};

static void add(const struct fact *);
static void make_one_line(char *text);
static void print_text(const struct fact *, int about_width, int name_width);
static void print_json(const struct fact *, bool last);
static void print_json_string(const char *text);

static const char *const verdicts[] = {
    [OXDP_OK] = "ok",
    [OXDP_WARNING] = "warning",
    [OXDP_REFUSED] = "refused",
};

static struct fact *facts;
static size_t n_facts, n_allocated;
static int send_fd = -1;

void oxdp_fact(enum oxdp_verdict verdict, const char *about, const char *name, const char *todo, const char *format,
               ...)
{
    struct fact fact = { .verdict = verdict };
    va_list args;

    snprintf(fact.about, sizeof fact.about, "%s", about);
    snprintf(fact.name, sizeof fact.name, "%s", name);
    snprintf(fact.todo, sizeof fact.todo, "%s", todo ? todo : "");
    va_start(args, format);
    vsnprintf(fact.text, sizeof fact.text, format, args);
    va_end(args);
    make_one_line(fact.text);
    make_one_line(fact.todo);
    add(&fact);
}

void oxdp_facts_send_to(int fd)
{
    send_fd = fd;
}

void oxdp_facts_receive(int fd)
{
    struct fact fact;
    size_t have = 0;
    ssize_t n;

    while ((n = read(fd, (char *) &fact + have, sizeof fact - have)) > 0) {
        have += n;
        if (have == sizeof fact) {
            add(&fact);
            have = 0;
        }
    }
}

unsigned int oxdp_facts_print(bool json)
{
    unsigned int counts[OXDP_REFUSED + 1] = { 0 };
    int about_width = 0, name_width = 0;

    for (size_t i = 0; i < n_facts; i++) {
        int about = strlen(facts[i].about), name = strlen(facts[i].name);

        about_width = about > about_width ? about : about_width;
        name_width = name > name_width ? name : name_width;
        counts[facts[i].verdict]++;
    }
    if (json) {
        printf("{\"version\": \"%s\",\n \"facts\": [\n", OXDP_VERSION);
    }
    for (size_t i = 0; i < n_facts; i++) {
        if (json) {
            print_json(&facts[i], i + 1 == n_facts);
        } else {
            print_text(&facts[i], about_width, name_width);
        }
    }
    if (json) {
        printf(" ],\n \"warnings\": %u, \"refused\": %u}\n", counts[OXDP_WARNING], counts[OXDP_REFUSED]);
    } else {
        printf("%u refused, %u warnings, %u ok; nothing was changed\n", counts[OXDP_REFUSED], counts[OXDP_WARNING],
               counts[OXDP_OK]);
    }
    return counts[OXDP_REFUSED];
}

static void add(const struct fact *fact)
{
    if (send_fd >= 0) {
        if (write(send_fd, fact, sizeof *fact) != sizeof *fact) {
            _exit(1);                   /* The parent is gone. */
        }
        return;
    }
    if (n_facts == n_allocated) {
        n_allocated = n_allocated ? 2 * n_allocated : 64;
        facts = reallocarray(facts, n_allocated, sizeof *facts);
        if (!facts) {
            fputs("ovs-xdp-check: not enough memory\n", stderr);
            exit(2);
        }
    }
    facts[n_facts++] = *fact;
}

/* What the kernel or a file said may have line ends; terminals obey control characters. */
static void make_one_line(char *text)
{
    for (; *text; text++) {
        if ((unsigned char) *text < ' ' || *text == 0x7f) {
            *text = ' ';
        }
    }
}

static void print_text(const struct fact *fact, int about_width, int name_width)
{
    printf("%-7s  %-*s  %-*s  %s", verdicts[fact->verdict], about_width, fact->about, name_width, fact->name,
           fact->text);
    if (fact->todo[0]) {
        printf(". Do: %s", fact->todo);
    }
    putchar('\n');
}

static void print_json(const struct fact *fact, bool last)
{
    printf("  {\"verdict\": \"%s\", \"about\": ", verdicts[fact->verdict]);
    print_json_string(fact->about);
    printf(", \"fact\": ");
    print_json_string(fact->name);
    printf(", \"text\": ");
    print_json_string(fact->text);
    printf(", \"do\": ");
    print_json_string(fact->todo);
    printf("}%s\n", last ? "" : ",");
}

/* Bytes beyond ASCII, which names of devices may have in any encoding, become question marks. */
static void print_json_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text & 0x80 ? '?' : *text);
    }
    putchar('"');
}
