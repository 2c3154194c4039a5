/* SPDX-License-Identifier: Apache-2.0 */
/* Random mutations of the corpora against Open vSwitch, from a fixed seed: what the fuzzers do for hours, for seconds.
 *
 *   test_parity PARSE-CORPUS ACTIONS-CORPUS [ROUNDS] */
#include <config.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csum.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "openvswitch/ofpbuf.h"
#include "tests/parity/oracle.h"

#define INPUT_SIZE 1024
#define N_INPUTS 4096
#define PARTS_SHARE 50                  /* It has hundreds of flows for each frame. */

struct corpus {
    size_t n;
    struct { uint8_t data[INPUT_SIZE]; size_t size; } inputs[N_INPUTS];
};

static struct corpus parse_corpus, actions_corpus;

static void read_corpus(struct corpus *, const char *folder);
static size_t mutate(const struct corpus *, uint8_t *input);

static enum parity check_parse(const uint8_t *input, size_t size)
{
    return size > 1 ? parity_parse(input + 1, size - 1, 1 + (input[0] & 1)) : PARITY_BEYOND;
}

static enum parity check_parts(const uint8_t *input, size_t size)
{
    return size > 1 ? parity_parts(input + 1, size - 1) : PARITY_BEYOND;
}

static enum parity check_actions(const uint8_t *input, size_t size)
{
    struct ofpbuf actions;
    enum parity result = PARITY_BEYOND;

    ofpbuf_init(&actions, 0);

    size_t used = parity_make_actions(input, size, &actions);

    if (size > used) {
        result = parity_actions(input + used, size - used, &actions);
    }
    ofpbuf_uninit(&actions);
    return result;
}

/* Two mutants of one input, as often as not the same; the mask is random bytes, most of them all ones or zeroes. */
static enum parity check_match(const uint8_t *input, size_t size)
{
    uint8_t other[INPUT_SIZE];
    uint8_t mask[128];

    if (size < 16) {
        return PARITY_BEYOND;
    }
    memcpy(other, input, size);
    for (int i = rand() % 3; i > 0; i--) {
        other[rand() % size] = rand();
    }
    for (size_t i = 0; i < sizeof mask; i++) {
        static const uint8_t common[] = { 0, 0, 0xff };

        mask[i] = rand() % 4 ? common[rand() % 3] : rand();
    }
    return parity_match(input + 1, size - 1, other + 1, size - 1, mask, sizeof mask);
}

/* What make_push() makes a tunnel's header of, nearly always one that is valid: 'how' is its first byte, by which there
 * are PUSH_KINDS kinds, both families, with and without checksum.  Returns the kind. */
#define PUSH_KINDS 3                    /* GRE, VXLAN, Geneve. */
#define PUSH_INPUT 128
static int make_push_input(uint8_t how, uint8_t input[PUSH_INPUT])
{
    uint8_t *tunnel = input + 3 + 12 + (how & 1 ? 40 : 20);

    for (int i = 0; i < PUSH_INPUT; i++) {
        input[i] = rand();
    }
    input[0] = 0;                       /* No other actions. */
    input[1] = 0x31;                    /* Push, output. */
    input[2] = how;
    if (how % PUSH_KINDS == 1) {
        memcpy(tunnel, (uint8_t[]) { 8, 0, 0, 0 }, 4);
    } else if (how % PUSH_KINDS == 2) {
        memcpy(tunnel, (uint8_t[]) { how >> 4, 0, 0x65, 0x58 }, 4);
    }
    tunnel[7] = 0;
    return how % PUSH_KINDS;
}

/* The frame 'inner' in a tunnel that Open vSwitch has made, 'how' as above.  Stores in '*pop' the actions that pop it,
 * if 'other' as one of any kind. */
static size_t put_in_tunnel(uint8_t how, bool other, const uint8_t *inner, size_t size, uint8_t frame[4096],
                            struct ofpbuf *pop)
{
    static const uint8_t ports[PUSH_KINDS] = { PARITY_TUNNEL_PORT + 2, PARITY_TUNNEL_PORT, PARITY_TUNNEL_PORT + 1 };
    uint8_t push[PUSH_INPUT];
    int kind = make_push_input(how, push);

    ofpbuf_clear(pop);
    parity_make_actions(push, sizeof push, pop);
    size = parity_theirs(inner, size, pop, frame);
    ofpbuf_clear(pop);
    nl_msg_put_u32(pop, OVS_ACTION_ATTR_TUNNEL_POP, ports[other ? rand() % PUSH_KINDS : kind]);
    return size;
}

/* A frame, put into a tunnel by Open vSwitch; then, often, bytes of the headers lie, or the end is missing. */
static enum parity check_pop(const uint8_t *input, size_t size)
{
    uint8_t frame[4096];
    struct ofpbuf pop;
    enum parity result = PARITY_BEYOND;

    ofpbuf_init(&pop, 0);
    if (size > 1) {
        size_t len = put_in_tunnel(rand(), rand() % 16 == 0, input + 1, size - 1, frame, &pop);

        for (int i = rand() % 2 * (rand() % 4); i > 0; i--) {
            frame[rand() % 80 % len] ^= rand() % 2 ? 1 << rand() % 8 : rand();
        }
        len -= rand() % 4 ? 0 : rand() % len;
        result = parity_actions(frame, len, &pop);
    }
    ofpbuf_uninit(&pop);
    return result;
}

/* Returns the number of differences, at most one. */
static int check(const char *what, const struct corpus *corpus, enum parity (*compare)(const uint8_t *, size_t),
                 unsigned long rounds)
{
    unsigned long n[3] = { 0 };

    for (unsigned long i = 0; i < rounds && !n[PARITY_DIFFERENT]; i++) {
        uint8_t input[INPUT_SIZE];
        size_t size = mutate(corpus, input);

        n[compare(input, size)]++;
    }
    printf("%s: %lu equal, %lu not compared (handed to the engine), %lu different\n", what, n[PARITY_EQUAL],
           n[PARITY_BEYOND], n[PARITY_DIFFERENT]);
    return n[PARITY_DIFFERENT] || n[PARITY_EQUAL] < rounds / 10;
}

/* Of an IPv4 header without options at 'ip', the right checksum. */
static void sum_ip(uint8_t *ip)
{
    ovs_be16 sum = 0;

    memcpy(ip + 10, &sum, sizeof sum);
    sum = csum(ip, 20);
    memcpy(ip + 10, &sum, sizeof sum);
}

/* Frames in tunnels of all kinds in which one thing lies, each thing once: a bit of the headers, or where IPv4 says
 * that it ends.  IPv4's checksum is right all the same; that of UDP and GRE is there or not.  Returns whether one
 * differs. */
#define MAX_HEADERS 110                 /* Bytes: Ethernet, IPv6, UDP, Geneve with some options, Ethernet. */
static int check_each_lie(void)
{
    static const uint8_t inner[60] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, 1, 2, 3 };
    unsigned long n[3] = { 0 };
    struct ofpbuf pop;

    ofpbuf_init(&pop, 0);
    for (int how = 0; how < 48 && !n[PARITY_DIFFERENT]; how++) {
        bool ip4 = !(how & 1), is_udp = how % PUSH_KINDS;
        uint8_t frame[4096], lie[4096];
        size_t len = put_in_tunnel(how, false, inner, sizeof inner, frame, &pop);
        size_t l4 = 14 + (ip4 ? 20 : 40);

        if (is_udp && !(how & 2)) {
            memset(frame + l4 + 6, 0, 2);       /* IPv6, too. */
        }
        for (size_t i = 14 * 8; i < MIN(len, MAX_HEADERS) * 8 && !n[PARITY_DIFFERENT]; i++) {
            memcpy(lie, frame, len);
            lie[i / 8] ^= 0x80 >> i % 8;
            if (ip4 && i / 8 - 24 > 1) {
                sum_ip(lie + 14);
            }
            n[parity_actions(lie, len, &pop)]++;
        }
        for (size_t ip_len = 20; ip4 && ip_len <= len - 14 && !n[PARITY_DIFFERENT]; ip_len++) {
            memcpy(lie, frame, len);
            lie[16] = ip_len >> 8;
            lie[17] = ip_len;
            sum_ip(lie + 14);
            n[parity_actions(lie, len, &pop)]++;
        }
    }
    ofpbuf_uninit(&pop);
    printf("popping, each lie: %lu equal, %lu not compared (handed to the engine), %lu different\n", n[PARITY_EQUAL],
           n[PARITY_BEYOND], n[PARITY_DIFFERENT]);
    return n[PARITY_DIFFERENT] || n[PARITY_EQUAL] < 1000;
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 100000;

    if (argc < 3) {
        fprintf(stderr, "usage: test_parity PARSE-CORPUS ACTIONS-CORPUS [ROUNDS]\n");
        return 2;
    }
    srand(1);
    read_corpus(&parse_corpus, argv[1]);
    read_corpus(&actions_corpus, argv[2]);
    return check("parsing", &parse_corpus, check_parse, rounds)
        | check("matching", &parse_corpus, check_match, rounds)
        | check("actions", &actions_corpus, check_actions, rounds)
        | check("popping", &parse_corpus, check_pop, rounds) | check_each_lie()
        | check("parts", &parse_corpus, check_parts, rounds / PARTS_SHARE);
}

static void read_corpus(struct corpus *corpus, const char *folder)
{
    DIR *dir = opendir(folder);

    for (struct dirent *entry; dir && (entry = readdir(dir)) && corpus->n < N_INPUTS;) {
        char path[4096];
        FILE *file;

        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        file = entry->d_name[0] != '.' ? fopen(path, "rb") : NULL;
        if (file) {
            corpus->inputs[corpus->n].size = fread(corpus->inputs[corpus->n].data, 1, INPUT_SIZE, file);
            corpus->n += corpus->inputs[corpus->n].size > 1;
            fclose(file);
        }
    }
    if (dir) {
        closedir(dir);
    }
    if (!corpus->n) {
        fprintf(stderr, "%s: no inputs\n", folder);
        exit(2);
    }
}

/* Copies one input, changes up to three bytes, and sometimes cuts it. */
static size_t mutate(const struct corpus *corpus, uint8_t *input)
{
    int i = rand() % corpus->n;
    size_t size = corpus->inputs[i].size;

    memcpy(input, corpus->inputs[i].data, size);
    for (int j = rand() % 4; j > 0; j--) {
        input[rand() % size] = rand() % 3 ? rand() : rand() % 8;
    }
    return rand() % 4 ? size : 1 + rand() % size;
}
