/* SPDX-License-Identifier: Apache-2.0 */
/* What each frame of a connection costs in BPF_PROG_TEST_RUN, from the first to the last: nanoseconds per frame,
 * without what it takes to make it.  A thousand connections at a time take each step, one after the other, before they
 * take the next; there are as many connections in all as the tables have room for, so that memory is cold where it is
 * cold in a switch.
 *
 *   bench_ct OBJECT [CONNECTIONS]        as root */
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tables/need.h"
#include "dp/op.h"
#include "tests/bpf_pipeline/harness.h"
#include "tests/parity/ct_world.h"
#include "tests/bpf_pipeline/talk.h"

#define AT_ONCE 1024
#define IN_PORT 7
#define BACK_PORT 8
#define ZONE 3

struct step {
    const char *what;
    bool by_server;
    uint8_t flags, seq, ack, len;       /* Of TCP; sequence numbers behind the initial ones. */
};

/* Handshake, request, answer, and end (RFC 9293, figures 6 and 12). */
static const struct step tcp[] = {
    { "SYN", false, DP_TCP_SYN, 0, 0, 0 },
    { "SYN, ACK", true, DP_TCP_SYN | DP_TCP_ACK, 0, 1, 0 },
    { "ACK", false, DP_TCP_ACK, 1, 1, 0 },
    { "request", false, DP_TCP_PSH | DP_TCP_ACK, 1, 1, 6 },
    { "answer", true, DP_TCP_PSH | DP_TCP_ACK, 1, 7, 6 },
    { "FIN", false, DP_TCP_FIN | DP_TCP_ACK, 7, 7, 0 },
    { "FIN of its peer", true, DP_TCP_FIN | DP_TCP_ACK, 7, 8, 0 },
    { "last ACK", false, DP_TCP_ACK, 8, 8, 0 },
};
static const struct step udp[] = { { "first datagram", false, 0, 0, 0, 18 } };

struct kind {
    const char *what;
    const struct step *steps;
    uint32_t n_steps;
    uint8_t proto;
    bool nat;
};

static const char *object;

/* Writes the frame of number 0, and what the program is to know of it.  Returns its length. */
static uint32_t make_frame(const struct kind *kind, const struct step *step, uint8_t frame[64], struct talk *talk)
{
    bool is_tcp = kind->proto == DP_IP_TCP;
    uint32_t l4_len = (is_tcp ? DP_TCP_LEN : DP_UDP_LEN) + step->len;
    const uint8_t client[4] = { 10, 0, 0, 0 }, server[4] = { 10, 1, 0, 1 };
    const uint8_t ports[4] = { 0x04, 0x00, 0x00, 0x09 };
    uint8_t *ip = frame + DP_ETH_LEN, *l4 = ip + DP_IP4_LEN;
    struct dp_ctx ctx = { .data = frame, .end = frame + 64 };
    uint16_t sum;

    memset(frame, 0, 64);
    frame[0] = frame[6] = 2;
    frame[12] = 8;
    memcpy(ip, (uint8_t[]) { 0x45, 0, 0, DP_IP4_LEN + l4_len, 0, 0, 0, 0, 64, kind->proto }, 10);
    memcpy(ip + (step->by_server ? 16 : 12), client, 4);
    memcpy(ip + (step->by_server ? 12 : 16), server, 4);
    memcpy(l4 + (step->by_server ? 2 : 0), ports, 2);
    memcpy(l4 + (step->by_server ? 0 : 2), ports + 2, 2);
    if (is_tcp) {
        uint8_t ours = step->by_server ? 50 : 10, theirs = step->by_server ? 10 : 50;

        memcpy(l4 + 4, (uint8_t[]) { 0, 0, ours, step->seq, 0, 0, step->flags & DP_TCP_ACK ? theirs : 0, step->ack,
                                     0x50, step->flags, 0xff, 0xff }, 12);
    } else {
        l4[5] = l4_len;
    }
    sum = ~dp_csum_fold(dp_ct_sum(&ctx, DP_ETH_LEN, DP_IP4_LEN));
    memcpy(ip + 10, &sum, 2);
    talk->ip_check = sum;
    sum = ~dp_csum_fold(dp_ct_pseudo(&ctx, DP_ETH_LEN, 0, kind->proto, l4_len)
                        + dp_ct_sum(&ctx, DP_ETH_LEN + DP_IP4_LEN, l4_len));
    talk->check = sum;
    talk->check_ofs = DP_ETH_LEN + DP_IP4_LEN + (is_tcp ? 16 : 6);
    talk->host_ofs = DP_ETH_LEN + (step->by_server ? 16 : 12);
    talk->in_port = step->by_server ? BACK_PORT : IN_PORT;
    memcpy(&talk->addr, ip + 12, 8);
    memcpy(&talk->ports, l4, 4);
    return DP_ETH_LEN + DP_IP4_LEN + (l4_len < 26 ? 26 : l4_len);
}

/* Inserts a flow if there is a harness, and adds what it needs. */
static void insert(struct harness *h, struct oxdp_needs *needs, const struct kind *kind, uint32_t in_port,
                   uint32_t recirc, uint32_t state, const struct dp_op *op, uint32_t fate, uint32_t arg)
{
    union dp_key mask = {
        .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff }, .vlan = { .tci = { 0xffff } },
        .ip_frag = 3, .ip_proto = 0xff,
    };
    union dp_key key = { .in_port = in_port, .recirc_id = recirc, .eth_type = dp_htons(DP_ETH_IP4),
                         .ip_proto = kind->proto };
    const struct dp_blob blob = { .ct = { .min = { dp_htonl(0x0a800000).raw }, .max = { dp_htonl(0x0affffff).raw } } };
    struct oxdp_flow flow = { .key = &key, .mask = &mask, .fate = fate, .arg = arg, .ops = op, .n_ops = !!op,
                              .blobs = &blob };
    struct oxdp_needs more;
    enum oxdp_table_full full;
    uint32_t index;

    if (recirc) {
        key.ct_state = state;
        mask.ct_state = DP_CS_TRK | DP_CS_EST | DP_CS_INV | DP_CS_NEW;
    }
    more = oxdp_needs_of_flow(&flow);
    oxdp_needs_add(needs, &more);
    if (h && oxdp_table_insert(h->table, &flow, &index, &full)) {
        fprintf(stderr, "%s\n", oxdp_table_full_to_string(full));
    }
}

/* TCP: what belongs to a connection passes, and who is behind IN_PORT may begin one.  UDP: each packet may. */
static void insert_flows(struct harness *h, struct oxdp_needs *needs, const struct kind *kind)
{
    struct dp_op track = { .code = DP_OP_CT, .u.ct = { .zone = ZONE } };
    struct dp_op commit = { .code = DP_OP_CT, .u.ct = { .zone = ZONE, .flags = DP_CT_COMMIT } };

    if (kind->proto == DP_IP_TCP) {
        insert(h, needs, kind, IN_PORT, 0, 0, &track, DP_FATE_RECIRC, 1);
        insert(h, needs, kind, BACK_PORT, 0, 0, &track, DP_FATE_RECIRC, 2);
        insert(h, needs, kind, IN_PORT, 1, DP_CS_TRK | DP_CS_NEW, &commit, DP_FATE_OUTPUT, BACK_PORT);
        insert(h, needs, kind, IN_PORT, 1, DP_CS_TRK | DP_CS_EST, NULL, DP_FATE_OUTPUT, BACK_PORT);
        insert(h, needs, kind, BACK_PORT, 2, DP_CS_TRK | DP_CS_EST, NULL, DP_FATE_OUTPUT, IN_PORT);
        return;
    }
    if (kind->nat) {
        commit.u.ct.flags |= DP_CT_NAT | DP_CT_TO_SRC;
        commit.n_blobs = 1;
    }
    insert(h, needs, kind, IN_PORT, 0, 0, &commit, DP_FATE_OUTPUT, BACK_PORT);
}

static int open_harness(struct harness *h)
{
    struct oxdp_table_config config = oxdp_table_config(10000, 2);
    static const struct oxdp_table_callbacks callbacks = { .grace = harness_no_grace };

    return harness_open(object, &config, &callbacks, h);
}

/* Has AT_ONCE connections take a step.  Returns nanoseconds per frame. */
static uint32_t take_step(struct harness *h, const struct kind *kind, const struct step *step, uint32_t first, bool dry)
{
    uint8_t frame[64], out[2048];
    uint32_t len = make_frame(kind, step, frame, h->talk), out_len, ns = 0;

    h->talk->next = first;
    h->talk->dry = dry;
    harness_run(h->many_fd, frame, len, AT_ONCE, out, &out_len, &ns);
    return ns;
}

static int compare(const void *a, const void *b)
{
    return *(const int *) a - *(const int *) b;
}

static void bench(const struct kind *kind, uint32_t n)
{
    static int ns[8][1 << 12];
    struct ct_world world = { .ctx = { .cpu = 0 } };
    struct oxdp_needs needs = { .parts = 0 };
    uint32_t rounds = n / AT_ONCE, all = 0;
    struct harness h;

    insert_flows(NULL, &needs, kind);
    oxdp_needs_close(&needs);
    harness_omit = oxdp_needs_complement(&needs);
    harness_conns = (n + AT_ONCE) * 2;             /* A zone gets its share. */
    harness_talks = true;
    if (open_harness(&h)) {
        exit(1);
    }
    world.tables = h.ct;
    ct_world_begin(&world);
    memcpy(h.paths.path_head->hash_key, h.ct.head->hash_key, sizeof h.paths.path_head->hash_key);
    h.paths.path_head->micro_last = DP_MICRO_LEAST - 1;
    h.paths.path_head->micro_most = h.paths.n_micros - 1;
    h.paths.path_head->fresh = UINT32_MAX / 4;
    insert_flows(&h, &needs, kind);
    take_step(&h, kind, &kind->steps[0], n, false);
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < kind->n_steps; i++) {
            ns[i][round] = take_step(&h, kind, &kind->steps[i], round * AT_ONCE, false)
                - take_step(&h, kind, &kind->steps[i], round * AT_ONCE, true);
        }
    }
    for (uint32_t i = 0; i < kind->n_steps; i++) {
        qsort(ns[i], rounds, sizeof ns[i][0], compare);
        printf("%-20s %-24s %5d ns [%d %d]\n", kind->what, kind->steps[i].what, ns[i][rounds / 2], ns[i][rounds / 4],
               ns[i][3 * rounds / 4]);
        all += ns[i][rounds / 2];
    }
    printf("%-20s %-24s %5u ns; sent %llu, dropped %llu, engine %llu; %u connections, %u microflows\n", kind->what,
           "all", all, (unsigned long long) h.n_fates[DP_FATE_OUTPUT], (unsigned long long) h.n_fates[DP_FATE_DROP],
           (unsigned long long) h.n_fates[DP_FATE_ENGINE], h.ct.head->n_conns, h.paths.path_head->n_micros);
    harness_close(&h);
}

int main(int argc, char **argv)
{
    static const struct kind kinds[] = {
        { "TCP", tcp, DP_ARRAY_SIZE(tcp), DP_IP_TCP, false },
        { "UDP", udp, DP_ARRAY_SIZE(udp), DP_IP_UDP, false },
        { "UDP, NAT", udp, DP_ARRAY_SIZE(udp), DP_IP_UDP, true },
    };
    uint32_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1 << 18;

    object = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < DP_ARRAY_SIZE(kinds); i++) {
        if (argc < 4 || !strcmp(argv[3], kinds[i].what)) {
            bench(&kinds[i], n);
        }
    }
    return 0;
}
