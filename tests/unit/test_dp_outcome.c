/* SPDX-License-Identifier: Apache-2.0 */
/* dp/pipeline.h: each run ends in one outcome, with the reason that is counted. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/tables/table.h"
#include "dp/seam_native.h"
#include "dp/pipeline.h"

#define IN_PORT 3
#define METER 5
#define HEADROOM 64

static const uint8_t udp[60] = {
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
    0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    0x03, 0xe8, 0, 53, 0, 26, 0, 0,
};

struct world {
    struct oxdp_table *table;
    struct dp_ctx ctx;
    struct dp_run run;
    uint8_t buffer[HEADROOM + sizeof udp];
};

static void no_grace(void *aux)
{
}

static int world_create(void **state)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = no_grace };
    struct oxdp_table_config config = oxdp_table_config(16, 1);
    struct world *w = calloc(1, sizeof *w);
    struct dp_meter *meter;

    assert_int_equal(oxdp_table_create(&config, NULL, &callbacks, &w->table), 0);
    w->ctx.tables = oxdp_table_memory(w->table);
    w->ctx.now = 1;
    meter = &w->ctx.tables->meters[METER];
    meter->per_packet = 1;              /* A band without rate and burst: no packet passes. */
    meter->n_bands = 1;
    meter->active = 1;
    *state = w;
    return 0;
}

static int world_destroy(void **state)
{
    struct world *w = *state;

    oxdp_table_destroy(w->table);
    free(w);
    return 0;
}

static void insert(struct world *w, uint32_t recirc_id, enum dp_fate fate, uint32_t arg, const struct dp_op *ops,
                   uint32_t n_ops)
{
    union dp_key key = { .in_port = IN_PORT, .recirc_id = recirc_id, .eth_type = dp_htons(DP_ETH_IP4) };
    union dp_key mask = { .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff } };
    struct oxdp_flow spec = { .key = &key, .mask = &mask, .fate = fate, .arg = arg, .ops = ops, .n_ops = n_ops };
    enum oxdp_table_full full;
    uint32_t index;

    assert_int_equal(oxdp_table_insert(w->table, &spec, &index, &full), 0);
}

/* Runs the first 'len' bytes of a frame with 'headroom' bytes before it; checks fate and reason. */
static struct dp_outcome run(struct world *w, uint32_t headroom, uint32_t len, enum dp_fate fate, enum dp_reason reason)
{
    struct dp_outcome outcome;

    memset(&w->run, 0xa5, sizeof w->run);
    w->run.frame.local_stack = 0;
    w->ctx.data = w->buffer + HEADROOM;
    w->ctx.start = w->ctx.data - headroom;
    w->ctx.end = w->ctx.data + len;
    memcpy(w->ctx.data, udp, sizeof udp);
    outcome = dp_pipeline(&w->ctx, IN_PORT, &w->run);
    assert_int_equal(outcome.fate, fate);
    assert_int_equal(outcome.reason, reason);
    return outcome;
}

static void test_forwards(void **state)
{
    insert(*state, 0, DP_FATE_OUTPUT, 7, NULL, 0);
    assert_int_equal(run(*state, 0, sizeof udp, DP_FATE_OUTPUT, DP_REASON_FORWARDED).to, 7);
}

static void test_group(void **state)
{
    insert(*state, 0, DP_FATE_GROUP, 2, NULL, 0);
    assert_int_equal(run(*state, 0, sizeof udp, DP_FATE_GROUP, DP_REASON_FORWARDED).to, 2);
}

static void test_drops(void **state)
{
    insert(*state, 0, DP_FATE_DROP, 0, NULL, 0);
    run(*state, 0, sizeof udp, DP_FATE_DROP, DP_REASON_DROPPED);
}

/* After other operations too: it is the meter that is counted, not the flow. */
static void test_meter_drops(void **state)
{
    const struct dp_op ops[] = { { .code = DP_OP_SET_ETH }, { .code = DP_OP_METER, .u.meter = METER } };

    insert(*state, 0, DP_FATE_DROP, 0, ops, 2);
    run(*state, 0, sizeof udp, DP_FATE_DROP, DP_REASON_METERED);
}

static void test_upcalls(void **state)
{
    struct world *w = *state;

    run(w, 0, sizeof udp, DP_FATE_ENGINE, DP_REASON_UP_MISS);
    assert_int_equal(w->run.flow, DP_NO_FLOW);
    run(w, 0, 13, DP_FATE_ENGINE, DP_REASON_UP_PARSE);
    insert(w, 0, DP_FATE_ENGINE, 0, NULL, 0);
    run(w, 0, sizeof udp, DP_FATE_ENGINE, DP_REASON_UP_ENGINE);
    assert_int_not_equal(w->run.flow, DP_NO_FLOW);
}

/* No headroom: known before anything is done, whether the first operation asks for it or not. */
static void test_no_headroom(void **state)
{
    const struct dp_op ops[] = {
        { .code = DP_OP_PUSH_VLAN, .growth = DP_VLAN_LEN, .u.vlan.tpid = { 0x0081 } },
        { .code = DP_OP_PUSH_VLAN, .growth = DP_VLAN_LEN, .u.vlan.tpid = { 0x0081 } },
    };

    for (uint32_t n = 1; n <= 2; n++) {
        struct world *w = *state;

        insert(w, 0, DP_FATE_OUTPUT, 7, ops, n);
        run(w, DP_VLAN_LEN * n, sizeof udp, DP_FATE_OUTPUT, DP_REASON_FORWARDED);
        run(w, DP_VLAN_LEN * n - 1, sizeof udp, DP_FATE_ENGINE, DP_REASON_UP_ENGINE);
        assert_ptr_equal(w->ctx.data, w->buffer + HEADROOM);
        assert_memory_equal(w->ctx.data, udp, sizeof udp);
        assert_int_equal(w->run.frame.l3, DP_ETH_LEN);
        assert_int_equal(w->run.frame.len, sizeof udp);
        oxdp_table_unlink(w->table, w->run.flow);
        oxdp_table_reclaim(w->table);
    }
}

/* A packet that is not what the flow expects of a tunnel. */
static void test_not_popped(void **state)
{
    const struct dp_op op = { .code = DP_OP_TNL_POP, .needs = DP_HAS_L3, .u.tunnel_pop.kind = DP_TUNNEL_VXLAN };
    struct world *w = *state;

    insert(w, 0, DP_FATE_RECIRC, 0, &op, 1);
    run(w, 0, sizeof udp, DP_FATE_ENGINE, DP_REASON_UP_TUNNEL);
    assert_int_not_equal(w->run.flow, DP_NO_FLOW);
    assert_int_equal(w->run.passes, 0);
    assert_memory_equal(w->ctx.data, udp, sizeof udp);
}

/* A tag that cannot be pushed moves no layer. */
static void test_failed_push_moves_nothing(void **state)
{
    struct world *w = *state;
    struct dp_op op = { .code = DP_OP_PUSH_VLAN };
    struct dp_frame before, frame = { .l2_5 = DP_NO_LAYER, .l3 = 14, .l4 = 34, .len = sizeof udp };

    before = frame;
    w->ctx.start = w->ctx.data = w->buffer;
    w->ctx.end = w->buffer + sizeof udp;
    assert_int_equal(dp_commit_op(&w->ctx, &frame, &w->run.key, &op), DP_REASON_NO_MEMORY);
    assert_memory_equal(&frame, &before, sizeof frame);
}

/* A sample is taken by chance, in each pass, before anything is done to the packet, and changes nothing of its way.
 * None is taken of a packet for the engine, which draws itself. */
static void test_samples(void **state)
{
    const struct dp_op ops[] = {
        { .code = DP_OP_SAMPLE, .u.sample.chance = 10 },
        { .code = DP_OP_PUSH_VLAN, .growth = DP_VLAN_LEN, .u.vlan.tpid = { 0x0081 } },
        { .code = DP_OP_METER, .u.meter = METER },
    };
    struct world *w = *state;

    w->ctx.tables->head->vlan_limit = 1;
    insert(w, 0, DP_FATE_RECIRC, 1, ops, 2);
    insert(w, 1, DP_FATE_OUTPUT, 7, ops, 1);
    w->ctx.random = 10;
    assert_int_equal(run(w, DP_VLAN_LEN, sizeof udp, DP_FATE_OUTPUT, DP_REASON_FORWARDED).to, 7);
    assert_int_equal(w->ctx.n_samples, 0);
    w->ctx.random = 9;
    assert_int_equal(run(w, DP_VLAN_LEN, sizeof udp, DP_FATE_OUTPUT, DP_REASON_FORWARDED).to, 7);
    assert_int_equal(w->ctx.n_samples, 2);
    assert_int_equal(w->run.tracked, 0);
    assert_int_equal(w->ctx.data[12], 0x81);

    run(w, DP_VLAN_LEN - 1, sizeof udp, DP_FATE_ENGINE, DP_REASON_UP_ENGINE);
    assert_int_equal(w->ctx.n_samples, 2);
    assert_int_equal(w->run.tracked, 0);
    w->ctx.omit.ops = 1ull << DP_OP_SAMPLE;
    run(w, DP_VLAN_LEN, sizeof udp, DP_FATE_ENGINE, DP_REASON_UP_ENGINE);
    assert_int_equal(w->ctx.n_samples, 2);
}

static void test_samples_what_meters_drop(void **state)
{
    const struct dp_op ops[] = {
        { .code = DP_OP_SAMPLE, .u.sample.chance = 1 }, { .code = DP_OP_METER, .u.meter = METER },
    };
    struct world *w = *state;

    insert(w, 0, DP_FATE_OUTPUT, 7, ops, 2);
    run(w, 0, sizeof udp, DP_FATE_DROP, DP_REASON_METERED);
    assert_int_equal(w->ctx.n_samples, 1);
}

/* Passes: the outcome is of the last one, and too many are the engine's. */
static void test_recirculation(void **state)
{
    struct world *w = *state;

    insert(w, 0, DP_FATE_RECIRC, 1, NULL, 0);
    run(w, 0, sizeof udp, DP_FATE_ENGINE, DP_REASON_UP_MISS);
    assert_int_equal(w->run.passes, 1);
    assert_int_equal(w->run.key.recirc_id, 1);
    insert(w, 1, DP_FATE_DROP, 0, NULL, 0);
    run(w, 0, sizeof udp, DP_FATE_DROP, DP_REASON_DROPPED);
}

static void test_recirculates_for_ever(void **state)
{
    struct world *w = *state;

    insert(w, 0, DP_FATE_RECIRC, 0, NULL, 0);
    run(w, 0, sizeof udp, DP_FATE_ENGINE, DP_REASON_UP_ENGINE);
    assert_int_equal(w->run.flow, DP_NO_FLOW);
    assert_int_equal(w->run.passes, DP_MAX_PASSES);
}

int main(void)
{
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, world_create, world_destroy)
    const struct CMUnitTest tests[] = {
        TEST(test_forwards), TEST(test_group), TEST(test_drops), TEST(test_meter_drops), TEST(test_upcalls),
        TEST(test_no_headroom), TEST(test_not_popped), TEST(test_failed_push_moves_nothing), TEST(test_recirculation),
        TEST(test_recirculates_for_ever), TEST(test_samples), TEST(test_samples_what_meters_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
