/* SPDX-License-Identifier: Apache-2.0 */
/* What each stage of the pipeline costs in BPF_PROG_TEST_RUN, one row per case: nanoseconds per run, of which the
 * program that does nothing takes those of the first row; of the complete program, and of one that is specialised.
 *
 *   bench OBJECT        as root */
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>

#include "core/tables/need.h"
#include "dp/op.h"
#include "tests/bpf_pipeline/harness.h"

#define REPEAT 300000
#define ROUNDS 5
#define IN_PORT 7

static const uint8_t udp4[60] = {
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
    0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    0x03, 0xe8, 0, 53, 0, 26, 0, 0,
};
static const uint8_t udp6[78] = {
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd,
    0x60, 0, 0, 0, 0, 24, 17, 64, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
    0x03, 0xe8, 0, 53, 0, 24, 0, 1,
};

static const char *object;

static int open_harness(struct harness *);
static uint32_t best(int fd, const uint8_t *frame, uint32_t len);
static void row(const char *what, uint32_t ns);

static union dp_key megaflow_mask(void)
{
    return (union dp_key) {
        .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff }, .vlan = { .tci = { 0xffff } },
        .ip_frag = 3,
    };
}

static union dp_key megaflow_key(uint16_t eth_type)
{
    return (union dp_key) { .in_port = IN_PORT, .eth_type = dp_htons(eth_type) };
}

static struct oxdp_flow flow_of(const union dp_key *key, const union dp_key *mask)
{
    return (struct oxdp_flow) { .key = key, .mask = mask, .fate = DP_FATE_OUTPUT, .arg = 2 };
}

static uint32_t insert(struct harness *h, const struct oxdp_flow *flow)
{
    enum oxdp_table_full full;
    uint32_t index = DP_NO_FLOW;

    if (oxdp_table_insert(h->table, flow, &index, &full)) {
        fprintf(stderr, "%s\n", oxdp_table_full_to_string(full));
    }
    return index;
}

/* A flow that the complete program runs, then one that omits what the flow does not need. */
static void bench_flow(struct harness *h, const char *what, const uint8_t *frame, uint32_t len,
                       const struct oxdp_flow *flow)
{
    struct oxdp_needs needs = oxdp_needs_of_flow(flow);
    uint32_t index = insert(h, flow);
    struct harness special;
    char text[64];

    row(what, best(h->pipeline_fd, frame, len));
    oxdp_table_unlink(h->table, index);
    oxdp_table_reclaim(h->table);

    oxdp_needs_close(&needs);
    harness_omit = oxdp_needs_complement(&needs);
    if (!open_harness(&special)) {
        insert(&special, flow);
        snprintf(text, sizeof text, "specialised: %s", what);
        row(text, best(special.pipeline_fd, frame, len));
        harness_close(&special);
    }
    memset(&harness_omit, 0, sizeof harness_omit);
}

static void bench_ip4(struct harness *h, const char *what, const struct dp_op *ops, uint32_t n_ops)
{
    union dp_key mask = megaflow_mask();
    union dp_key key = megaflow_key(DP_ETH_IP4);
    struct oxdp_flow flow = flow_of(&key, &mask);

    flow.ops = ops;
    flow.n_ops = n_ops;
    bench_flow(h, what, udp4, sizeof udp4, &flow);
}

static void bench_ip6(struct harness *h)
{
    union dp_key mask = megaflow_mask();
    union dp_key key = megaflow_key(DP_ETH_IP6);

    memset(&mask.ip6_src_hi, 0xff, 8);
    memset(&mask.ip6_src_lo, 0xff, 24);
    memset(&mask.tp_src, 0xff, 4);
    mask.ip_proto = 0xff;
    key.ip_proto = DP_IP_UDP;
    memcpy(&key.ip6_src_hi, udp6 + 22, 8);
    memcpy(&key.ip6_src_lo, udp6 + 30, 24);
    memcpy(&key.tp_src, udp6 + 54, 4);

    struct oxdp_flow flow = flow_of(&key, &mask);

    bench_flow(h, "IPv6, 5-tuple, output", udp6, sizeof udp6, &flow);
}

/* Masks that nothing matches before one that does: walked each time, because the cache holds no miss. */
static void bench_masks(struct harness *h, int n)
{
    char what[64];

    for (int i = 0; i < n; i++) {
        union dp_key mask = megaflow_mask();
        union dp_key key = megaflow_key(DP_ETH_IP4);

        mask.ip4_dst = dp_htonl(UINT32_MAX << i);
        key.ip4_dst = dp_htonl(0x0b000000);
        struct oxdp_flow flow = flow_of(&key, &mask);

        insert(h, &flow);
    }
    snprintf(what, sizeof what, "miss after %d masks", n);
    row(what, best(h->pipeline_fd, udp4, sizeof udp4));
}

int main(int argc, char **argv)
{
    static const struct dp_op set_eth = { .code = DP_OP_SET_ETH, .u.eth = { { 1, 2, 3 }, { ~0u, ~0u, ~0u } } };
    static const struct dp_op rewrite[] = {
        { .code = DP_OP_SET_ETH, .u.eth = { { 1, 2, 3 }, { ~0u, ~0u, ~0u } } },
        { .code = DP_OP_SET_IP4, .needs = DP_HAS_IP4,
          .u.ip4 = { .src = 0x0100000b, .src_mask = ~0u, .ttl = 63, .ttl_mask = 255 } },
    };
    static const struct dp_op vlan[] = {
        { .code = DP_OP_PUSH_VLAN, .growth = DP_VLAN_LEN, .u.vlan = { { 0x0081 }, { 0x0510 } } },
        { .code = DP_OP_POP_VLAN },
    };
    struct harness h;

    object = argc > 1 ? argv[1] : "";
    if (open_harness(&h)) {
        return 1;
    }
    printf("%u instructions verified\n", h.n_verified);
    row("nothing", best(h.empty_fd, udp4, sizeof udp4));
    row("miss, no masks", best(h.pipeline_fd, udp4, sizeof udp4));
    bench_ip4(&h, "output", NULL, 0);
    bench_ip4(&h, "set Ethernet, output", &set_eth, 1);
    bench_ip4(&h, "set Ethernet, set IPv4, decrement TTL, output", rewrite, 2);
    bench_ip4(&h, "push VLAN, pop VLAN, output", vlan, 2);
    bench_ip6(&h);
    bench_masks(&h, 16);
    harness_close(&h);
    return 0;
}

static int open_harness(struct harness *h)
{
    struct oxdp_table_config config = oxdp_table_config(10000, 2);
    static const struct oxdp_table_callbacks callbacks = { .grace = harness_no_grace };

    return harness_open(object, &config, &callbacks, h);
}

static void row(const char *what, uint32_t ns)
{
    printf("%-48s %5u ns\n", what, ns);
}

static uint32_t best(int fd, const uint8_t *frame, uint32_t len)
{
    uint32_t least = UINT32_MAX;

    for (int i = 0; i < ROUNDS; i++) {
        uint8_t out[2048];
        uint32_t out_len, ns;

        if (harness_run(fd, frame, len, REPEAT, out, &out_len, &ns) >= 0 && ns < least) {
            least = ns;
        }
    }
    return least;
}
