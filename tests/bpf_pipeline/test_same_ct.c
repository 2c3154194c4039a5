/* SPDX-License-Identifier: Apache-2.0 */
/* dp/ct*.h natively and in the kernel: the conversations of tests/parity/make_ct.c through both, on tables of their
 * own.  After each ct() the tables are the same, byte by byte, as are the packet and what ct() left in struct
 * dp_ct_run.
 *
 *   test_same_ct OBJECT [CONVERSATIONS [SEED]]        as root */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conntrack.h"
#include "dp/seam_native.h"
#include "dp/parse.h"
#include "tests/bpf_pipeline/harness.h"
#include "tests/parity/ct_world.h"
#include "tests/bpf_pipeline/ct_call.h"
#include "tests/parity/oracle_ct.h"

#define MAX_FRAME 2048          /* Of harness_run(). */
#define N_CONNS 128
#define COMPARED 256            /* Elements of a table. */

static struct harness kernel;
static struct ct_world in_kernel, native;
static uint8_t frame[MAX_FRAME], kernel_frame[MAX_FRAME];
static size_t frame_len;
static struct dp_ct_run run;    /* The native one. */
static struct dp_frame layers;
static bool v6;
static uint32_t now;
static unsigned long n_steps, n_states[256];

static bool same_tables(void);

void ct_oracle_begin(bool loses)
{
    ct_world_clear(&native);
    ct_world_clear(&in_kernel);
}

void ct_oracle_limit_zone(int zone, uint32_t limit)
{
    ct_world_limit_zone(&native, zone, limit);
    ct_world_limit_zone(&in_kernel, zone, limit);
}

void ct_oracle_limit(uint32_t maxconns)
{
    native.tables.head->maxconns = in_kernel.tables.head->maxconns = maxconns;
}

void ct_oracle_check_sequence(bool check)
{
    native.tables.head->no_seq_check = in_kernel.tables.head->no_seq_check = !check;
}

bool ct_oracle_wait(uint64_t ms, bool sweep)
{
    now += ms;
    if (sweep) {
        ct_world_sweep(&native, now);
        ct_world_sweep(&in_kernel, now);
    }
    return same_tables();
}

void ct_oracle_flush(int zone)
{
    ct_world_flush(&native, zone);
    ct_world_flush(&in_kernel, zone);
}

bool ct_oracle_packet(const uint8_t *data, size_t len)
{
    union dp_key key = { .in_port = PARITY_IN_PORT };

    if (len > MAX_FRAME) {
        return false;
    }
    memcpy(frame, data, len);
    memcpy(kernel_frame, data, len);
    frame_len = len;
    native.ctx.start = native.ctx.data = frame;
    native.ctx.end = frame + len;
    layers.local_stack = 0;
    if (dp_parse(&native.ctx, &layers, &key, 2) != DP_PARSED) {
        return false;
    }
    v6 = DP_BE16_IS(key.eth_type, DP_ETH_IP6);
    memset(&run, 0, sizeof run);
    kernel.call->run = run;
    return v6 || DP_BE16_IS(key.eth_type, DP_ETH_IP4);
}

const uint8_t *ct_oracle_frame(size_t *len)
{
    *len = frame_len;
    return frame;
}

void ct_oracle_clear(void)
{
    run.md.state = 0;
    run.md.cached = 0;
    kernel.call->run.md = run.md;
}

void ct_oracle_set_address(bool dst, const uint8_t addr[16])
{
    __u64 words[2] = { 0 };

    memcpy(words, addr, v6 ? 16 : 4);
    if (layers.l4 != DP_NO_LAYER) {
        dp_ct_put_address(&native.ctx, layers.l3, v6, dst, words);
    }
    memcpy(kernel_frame, frame, frame_len);
    run.md.cached = 0;
    kernel.call->run.md = run.md;
}

static bool same(const char *what, const void *ours, const void *kernels, size_t len)
{
    if (memcmp(ours, kernels, len)) {
        fprintf(stderr, "%s differs\n", what);
        parity_dump("native", ours, len);
        parity_dump("kernel", kernels, len);
        return false;
    }
    return true;
}

static bool same_tables(void)
{
    const struct dp_ct_tables *a = &native.tables, *b = &in_kernel.tables;
    bool equal = true;

#define X(NAME, TYPE) equal &= same(#NAME, a->NAME, b->NAME, MIN(a->n_##NAME, COMPARED) * sizeof(TYPE));
    DP_CT_TABLES(X)
#undef X
    return equal
        & same("the default zone", &a->zones[DP_CT_ZONE_DEFAULT], &b->zones[DP_CT_ZONE_DEFAULT], sizeof *a->zones);
}

static struct dp_ct_action action_of(const struct ct_step *step)
{
    struct dp_ct_action action = {
        .zone = step->zone, .policy = step->policy,
        .flags = (step->commit ? DP_CT_COMMIT : 0) | (step->force ? DP_CT_FORCE : 0) | (step->nat ? DP_CT_NAT : 0)
            | (step->nat_action & NAT_ACTION_SRC ? DP_CT_TO_SRC : 0)
            | (step->nat_action & NAT_ACTION_DST ? DP_CT_TO_DST : 0)
            | (step->nat_action & (NAT_ACTION_SRC_PORT | NAT_ACTION_DST_PORT) ? DP_CT_TO_PORTS : 0)
            | (step->set_mark ? DP_CT_MARK : 0) | (step->set_label ? DP_CT_LABEL : 0),
        .mark = step->mark[0], .mark_mask = step->mark[1],
        .nat = { .min_port = step->min_port, .max_port = step->max_port },
    };

    memcpy(action.label, step->label[0], 16);
    memcpy(action.label_mask, step->label[1], 16);
    memcpy(action.nat.min, step->min_addr, v6 ? 16 : 4);
    memcpy(action.nat.max, step->max_addr, v6 ? 16 : 4);
    return action;
}

enum parity ct_oracle_step(const struct ct_step *step)
{
    struct dp_ct_action action = action_of(step);
    uint32_t result, out_len, ns;
    int verdict;
    bool equal;

    *kernel.call = (struct ct_call) { .frame = layers, .v6 = v6, .now = now, .action = action, .run = run };
    verdict = harness_run(kernel.track_fd, kernel_frame, frame_len, 1, kernel_frame, &out_len, &ns);
    if (verdict < 0) {
        fprintf(stderr, "BPF_PROG_TEST_RUN: %s\n", strerror(-verdict));
        return PARITY_DIFFERENT;
    }
    result = dp_ct(&native.ctx, &layers, v6, &action, now, &run);
    ct_world_finish(&native, &run);
    if (kernel.call->run.remark) {
        ct_world_finish(&in_kernel, &kernel.call->run);
    }
    n_steps++;
    n_states[run.md.state]++;
    equal = same("the frame", frame, kernel_frame, frame_len);
    equal &= same("the result", &result, &kernel.call->result, sizeof result);
    equal &= same("struct dp_ct_run", &run, &kernel.call->run, sizeof run);
    equal &= same_tables();
    if (!equal) {
        fprintf(stderr, "ct(zone=%d, flags %#x)\n", action.zone, action.flags);
        parity_dump("frame", frame, frame_len);
    }
    return equal ? PARITY_EQUAL : PARITY_DIFFERENT;
}

int main(int argc, char **argv)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = harness_no_grace };
    struct oxdp_table_config config = oxdp_table_config(16, 64);
    unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    unsigned int kinds = 0;

    harness_conns = N_CONNS;
    if (argc < 2 || harness_open(argv[1], &config, &callbacks, &kernel)) {
        return 1;
    }
    in_kernel.tables = kernel.ct;
    ct_world_begin(&in_kernel);
    ct_world_init(&native, in_kernel.tables.n_keys, in_kernel.tables.n_buckets);
    for (unsigned long i = 0; i < rounds; i++) {
        struct ct_choices choices = { .random = (seed + i) * 0x9e3779b97f4a7c15ull | 1 };

        if (parity_ct(&choices, false) == PARITY_DIFFERENT) {
            printf("conversation %lu, packet %lu: test_same_ct OBJECT 1 %llu\n", i, choices.packets,
                   (unsigned long long) (seed + i));
            return 1;
        }
    }
    for (int i = 0; i < 256; i++) {
        kinds += n_states[i] != 0;
    }
    printf("%lu conversations, %lu actions compared, %u kinds of ct_state\n", rounds, n_steps, kinds);
    harness_close(&kernel);
    ct_world_destroy(&native);
    return kinds < 10;
}
