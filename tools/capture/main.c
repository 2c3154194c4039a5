/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-xdp-tcpdump: both directions of a port, also what passes in XDP and tcx, where packet sockets do not look.
 *
 *     programs of the switch --(core/capture/)--+
 *                                               +--> pcap --> file, or tcpdump -r - that prints
 *     packet socket of the port --(tcpdump)-----+
 *
 * The two see different packets: what a program redirects passes no packet socket. */
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/capture/capture.h"
#include "tools/capture/tcpdump.h"

enum { EXIT_USAGE = 2 };

#define MAX_SNAPLEN 65000               /* A sample of perf has 16 bits for its length. */
#define DEFAULT_RATE 20000
#define BEGIN_MS 5000
#define FOLLOW_MS 50                    /* Between looks for programs that were exchanged. */
#define TCPDUMP_FLAGS "AeKlnpqStvxX#"   /* Options of tcpdump without an argument that are for printing. */

struct session {
    const char *port;
    char *expression;
    const char *file;                   /* NULL: print. */
    struct oxdp_capture_config config;
    uint64_t limit;                     /* Packets; 0: none. */
    uint64_t n;
    char *flags[64];                    /* For the tcpdump that prints. */
    size_t n_flags;
    struct oxdp_capture *capture;
    struct oxdp_child socket, printer;
    const char *socket_direction;       /* What it captures. */
    FILE *out;
    bool broken;                        /* Its reader is gone. */
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    stopped = 1;
}

static void usage(FILE *stream)
{
    fputs("usage: ovs-xdp-tcpdump [OPTION]... PORT [EXPRESSION...]\n"
          "Captures what the port PORT of an OVS-XDP switch receives and sends, also what passes in XDP and tcx.\n"
          "EXPRESSION is a filter as tcpdump takes it.  Changes nothing in the switch.\n"
          "  -c COUNT     end after COUNT packets\n"
          "  -i PORT      the port, as tcpdump is used to be told\n"
          "  -Q DIRECTION in, out, or inout (the default)\n"
          "  -s BYTES     copy that much of each packet at most (all, up to 65000)\n"
          "  -w FILE      write packets to FILE (pcap), - for standard output; else tcpdump prints them\n"
          "  -A -e -K -n -q -S -t -v -x -X -#  are for the tcpdump that prints; -l and -p are what is done anyway\n"
          "  --rate N     copy N packets in a second on each CPU at most (20000)\n"
          "  --version    print the version\n"
          "Exit status: 0, 1 cannot capture, 2 usage.\n", stream);
}

static int complain(const char *what, char *error)
{
    fprintf(stderr, "ovs-xdp-tcpdump: %s%s%s\n", what, error ? ": " : "", error ? error : "");
    free(error);
    return EXIT_FAILURE;
}

/* Reads a number from 1 on.  False if 'text' is none. */
static bool read_number(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *ret && *ret <= max;
}

static char *join(char *words[])
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    for (size_t i = 0; stream && words[i]; i++) {
        fprintf(stream, "%s%s", i ? " " : "", words[i]);
    }
    if (stream) {
        fclose(stream);
    }
    return text;
}

static bool set_direction(struct session *s, const char *text)
{
    s->config.in = !strcmp(text, "in") || !strcmp(text, "inout");
    s->config.out = !strcmp(text, "out") || !strcmp(text, "inout");
    return s->config.in || s->config.out;
}

/* Returns an exit status, or -1 to go on. */
static int parse(int argc, char *argv[], struct session *s)
{
    static const struct option options[] = {
        { "rate", required_argument, NULL, 'R' },
        { "direction", required_argument, NULL, 'Q' },
        { "interface", required_argument, NULL, 'i' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    uint64_t number;
    int option;

    s->config.rate = DEFAULT_RATE;
    s->config.snaplen = MAX_SNAPLEN;
    s->config.in = s->config.out = true;
    while ((option = getopt_long(argc, argv, "+c:i:Q:s:w:hV" TCPDUMP_FLAGS, options, NULL)) != -1) {
        switch (option) {
        case 'c':
        case 's':
        case 'R':
            if (!read_number(optarg, option == 's' ? MAX_SNAPLEN : UINT32_MAX, &number)) {
                fprintf(stderr, "ovs-xdp-tcpdump: \"%s\" is no number from 1 to %u\n", optarg,
                        option == 's' ? MAX_SNAPLEN : UINT32_MAX);
                return EXIT_USAGE;
            }
            *(option == 's' ? &s->config.snaplen : &s->config.rate) = option == 'c' ? s->config.rate : number;
            s->limit = option == 'c' ? number : s->limit;
            break;
        case 'i':
            s->port = optarg;
            break;
        case 'Q':
            if (!set_direction(s, optarg)) {
                fprintf(stderr, "ovs-xdp-tcpdump: the direction is in, out or inout, not \"%s\"\n", optarg);
                return EXIT_USAGE;
            }
            break;
        case 'w':
            s->file = optarg;
            break;
        case 'h':
            usage(stdout);
            return EXIT_SUCCESS;
        case 'V':
            puts("ovs-xdp-tcpdump (OVS-XDP) " OXDP_VERSION);
            return EXIT_SUCCESS;
        case '?':
            usage(stderr);
            return EXIT_USAGE;
        default:
            if (s->n_flags < 40 && (asprintf(&s->flags[s->n_flags], "-%c", option)) > 0) {
                s->n_flags++;
            }
        }
    }
    if (!s->port && optind < argc) {
        s->port = argv[optind++];
    }
    if (!s->port) {
        usage(stderr);
        return EXIT_USAGE;
    }
    s->expression = join(argv + optind);
    return s->expression ? -1 : EXIT_FAILURE;
}

static void put(const struct oxdp_pcap_packet *packet, const void *data, void *session)
{
    struct session *s = session;

    if (s->broken || (s->limit && s->n >= s->limit)) {
        return;
    }
    s->broken = !oxdp_pcap_write(s->out, packet, data);
    s->n += !s->broken;
}

static void put_captured(const struct oxdp_captured *captured, void *session)
{
    const struct oxdp_pcap_packet packet = {
        captured->time / 1000000000, captured->time % 1000000000, captured->captured, captured->length,
    };

    put(&packet, captured->data, session);
}

/* A packet socket sees what the device receives unless a program takes it first, and what the stack sends. */
static int follow(struct session *s)
{
    char *error = NULL;
    bool taken = oxdp_capture_follow(s->capture, &error);
    const char *direction = !s->config.in || taken ? s->config.out ? "out" : NULL : s->config.out ? "inout" : "in";
    int err;

    if (error) {
        complain(s->port, error);
    }
    if (direction == s->socket_direction) {
        return 0;
    }
    if (s->socket.pid) {
        oxdp_child_read(&s->socket, put, s);
        oxdp_child_end(&s->socket, SIGTERM);
    }
    s->socket_direction = direction;
    err = direction ? oxdp_tcpdump_capture(s->port, direction, s->config.snaplen, s->expression, &s->socket) : 0;
    if (err) {
        complain("tcpdump", strdup(strerror(-err)));
    } else if (direction) {
        struct pollfd begun = { .fd = s->socket.fd, .events = POLLIN };

        poll(&begun, 1, BEGIN_MS);      /* What it writes first comes when it captures. */
    }
    return err;
}

static bool is_there(const struct session *s)
{
    return if_nametoindex(s->port) == (unsigned int) s->config.ifindex;
}

/* Until the user stops it. */
static int run(struct session *s)
{
    struct timespec last = { 0 }, now;

    while (!stopped && !s->broken && (!s->limit || s->n < s->limit)) {
        struct pollfd fds[] = {
            { .fd = oxdp_capture_fd(s->capture), .events = POLLIN },
            { .fd = s->socket.pid ? s->socket.fd : -1, .events = POLLIN },
        };

        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - last.tv_sec) * 1000 + (now.tv_nsec - last.tv_nsec) / 1000000 >= FOLLOW_MS) {
            last = now;
            if (!is_there(s)) {
                return complain(s->port, strdup("the device has gone"));
            }
            if (follow(s)) {
                return EXIT_FAILURE;
            }
            fds[1].fd = s->socket.pid ? s->socket.fd : -1;
        }
        poll(fds, 2, FOLLOW_MS);
        oxdp_capture_read(s->capture, put_captured, s);
        if (s->socket.pid && !oxdp_child_read(&s->socket, put, s)) {
            return complain(s->port,
                            strdup(!is_there(s) ? "the device has gone"
                                                : "its tcpdump ended; see what \"tcpdump -p -i PORT\" says"));
        }
        fflush(s->out);
    }
    return EXIT_SUCCESS;
}

static FILE *open_output(struct session *s)
{
    if (!s->file) {
        s->flags[s->n_flags] = NULL;
        return oxdp_tcpdump_print(s->flags, &s->printer) ? NULL : fdopen(dup(s->printer.fd), "w");
    }
    return strcmp(s->file, "-") ? fopen(s->file, "we") : stdout;
}

static void finish(struct session *s)
{
    struct oxdp_capture_missed missed = { 0 };

    if (s->socket.pid) {
        oxdp_child_end(&s->socket, SIGTERM);
    }
    if (s->capture) {
        missed = oxdp_capture_missed(s->capture);
    }
    oxdp_capture_close(s->capture);
    if (s->out) {
        fclose(s->out);
    }
    if (s->printer.pid) {
        oxdp_child_end(&s->printer, 0);
    }
    if (s->out) {
        fprintf(stderr, "%llu packets captured\n", (unsigned long long) s->n);
        if (missed.beyond_rate || missed.unread) {
            fprintf(stderr,
                    "%llu packets more matched in XDP and tcx: %llu above --rate %u, %llu while the buffer was full\n",
                    (unsigned long long) (missed.beyond_rate + missed.unread), (unsigned long long) missed.beyond_rate,
                    s->config.rate, (unsigned long long) missed.unread);
        }
    }
}

int main(int argc, char *argv[])
{
    struct session session = { .socket.fd = -1, .printer.fd = -1 }, *s = &session;
    struct sock_filter *filter = NULL;
    struct sigaction action = { .sa_handler = stop };
    char *error = NULL;
    int status = parse(argc, argv, s);

    if (status >= 0) {
        return status;
    }
    s->config.ifindex = if_nametoindex(s->port);
    if (!s->config.ifindex) {
        return complain(s->port, strdup("there is no such device in this network namespace"));
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (s->expression[0]) {
        int n = oxdp_tcpdump_compile(s->expression, &filter);

        if (n < 0) {
            return EXIT_FAILURE;
        }
        s->config.filter = filter;
        s->config.n_filter = n;
    }
    if (oxdp_capture_open(&s->config, &s->capture, &error)) {
        return complain(s->port, error);
    }
    follow(s);
    s->out = open_output(s);
    if (!s->out || !oxdp_pcap_begin(s->out, s->config.snaplen)) {
        status = complain(s->file ? s->file : "tcpdump", strdup(strerror(errno)));
    } else {
        fprintf(stderr, "ovs-xdp-tcpdump: listening on %s, %zu programs of switches\n", s->port,
                oxdp_capture_n_programs(s->capture));
        status = run(s);
    }
    finish(s);
    free(filter);
    free(s->expression);
    return status;
}
