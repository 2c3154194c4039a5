/* SPDX-License-Identifier: Apache-2.0 */
/* The sweeper of the path cache: what it gives up, when paths are free again, on which ports nothing is looked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/ct/ct.h"
#include "dp/seam_native.h"
#include "dp/ct_run.h"
#include "dp/path.h"

#define HZ 1000
#define NOW 1000000
#define N 4096
#define FRESH_MS 30000          /* The default timeout of UDP connections with replies, the shortest there is. */

struct world {
    struct oxdp_ct *ct;
    struct dp_path_tables paths;
};

static int world_create(void **state)
{
    const struct oxdp_ct_config config = { .n = N, .hz = HZ, .maps = true };
    static struct world w;

    assert_int_equal(oxdp_ct_create(&config, NULL, &w.ct), 0);
    w.paths = *oxdp_ct_paths(w.ct);
    assert_int_equal(w.paths.path_head->micro_last, DP_MICRO_LEAST - 1);
    assert_int_equal(w.paths.path_head->micro_most, N - 1);
    assert_int_equal(w.paths.path_head->fresh, FRESH_MS);
    *state = &w;
    return 0;
}

static int world_destroy(void **state)
{
    struct world *w = *state;

    oxdp_ct_destroy(w->ct);
    return 0;
}

/* A connection; its reference. */
static uint32_t make(struct world *w, uint32_t i)
{
    struct dp_ctx ctx = { .ct = oxdp_ct_tables(w->ct) };
    struct dp_ct_run run = {
        .tuple = { .addr = { { 0x0100000a + i }, { 0x0200000a } }, .l4 = { 1000, 53 }, .zone = 1, .proto = DP_IP_UDP },
    };
    const struct dp_ct_action action = { .zone = 1 };

    assert_int_equal(dp_ct_make(&ctx, &run, &action, NOW), DP_CT_MADE);
    return run.ref;
}

/* What a program that learns leaves: a microflow of packets of 'port' that belong to connection 'ref', with a path. */
static struct dp_micro *learn(struct world *w, uint32_t port, uint32_t ref, uint32_t path)
{
    struct dp_path_head *head = w->paths.path_head;
    uint32_t key = DP_MICRO(port, 0, 0, 0, DP_PATH_READY);
    struct dp_micro *micro = &w->paths.micros[dp_path_hash(head, key, ref, port)];

    for (uint32_t i = 1; micro->word != DP_PATH_FREE && i < DP_MICRO_PLACES; i++) {
        micro = &w->paths.micros[dp_path_hash(head, key, ref, port) ^ i];
    }
    if (w->paths.paths[path].status == DP_PATH_FREE) {
        w->paths.paths[path].status = DP_PATH_READY;
        head->n_paths++;
    }
    assert_int_equal(micro->word, DP_PATH_FREE);
    micro->addr = ref;
    micro->ports = port;
    micro->conn[0].ref = ref;
    micro->conn[0].version = oxdp_ct_tables(w->ct)->lives[DP_CT_REF_INDEX(ref)].version;
    micro->word = key | DP_MICRO(0, 0, path, 0, 0);
    head->n_micros++;
    head->port[port % DP_PATH_PORTS] = 1;
    return micro;
}

/* Returns whether the sweeper would wait for programs. */
static bool sweep(struct world *w, uint32_t now)
{
    bool waits;

    while (!oxdp_ct_sweep(w->ct, now, N)) {
    }
    waits = oxdp_ct_reclaim_begin(w->ct);
    if (waits) {
        oxdp_ct_reclaim_end(w->ct);
    }
    return waits;
}

/* Of what is out of date, idle, or being written, only that goes that is not being written; nobody waits for it. */
static void test_microflows(void **state)
{
    struct world *w = *state;
    uint32_t refs[4];
    struct dp_micro *micro[4];

    for (int i = 0; i < 4; i++) {
        refs[i] = make(w, i);
        micro[i] = learn(w, 7, refs[i], 5);
    }
    assert_false(sweep(w, NOW));
    assert_int_equal(w->paths.path_head->n_micros, 4);

    oxdp_ct_tables(w->ct)->lives[DP_CT_REF_INDEX(refs[1])].version++;
    micro[2]->word = DP_PATH_WRITING;
    assert_false(sweep(w, NOW));
    assert_int_equal(micro[1]->word, DP_PATH_FREE);
    assert_int_equal(micro[2]->word, DP_PATH_WRITING);
    assert_int_equal(w->paths.path_head->n_micros, 3);

    oxdp_ct_tables(w->ct)->lives[DP_CT_REF_INDEX(refs[3])].used = NOW + 1;
    assert_false(sweep(w, NOW + FRESH_MS - 1));
    assert_int_equal(w->paths.path_head->n_micros, 3);
    assert_false(sweep(w, NOW + FRESH_MS));
    assert_int_equal(micro[0]->word, DP_PATH_FREE);
    assert_int_not_equal(micro[3]->word, DP_PATH_FREE);
    assert_int_equal(w->paths.path_head->n_micros, 2);
    assert_int_equal(w->paths.paths[5].status, DP_PATH_READY);
}

/* A path that is out of date takes its microflows with it at once; its place is free after two rounds with waiting. */
static void test_paths(void **state)
{
    struct world *w = *state;
    struct dp_micro *one = learn(w, 7, make(w, 0), 5), *other = learn(w, 7, make(w, 1), 6), *late;

    w->paths.paths[5].status = DP_PATH_STALE;
    assert_true(sweep(w, NOW));
    assert_int_equal(one->word, DP_PATH_FREE);
    assert_int_not_equal(other->word, DP_PATH_FREE);

    /* By a program that found the path before it was out of date. */
    late = learn(w, 7, make(w, 2), 5);
    assert_true(sweep(w, NOW));
    assert_int_equal(late->word, DP_PATH_FREE);
    assert_int_equal(w->paths.paths[5].status, DP_PATH_STALE);
    assert_int_equal(w->paths.path_head->n_paths, 2);

    assert_false(sweep(w, NOW));
    assert_int_equal(w->paths.paths[5].status, DP_PATH_FREE);
    assert_int_equal(w->paths.path_head->n_paths, 1);
    assert_int_not_equal(other->word, DP_PATH_FREE);

    /* The next that is out of date waits as long. */
    w->paths.paths[6].status = DP_PATH_STALE;
    assert_true(sweep(w, NOW));
    assert_true(sweep(w, NOW));
    assert_false(sweep(w, NOW));
    assert_int_equal(w->paths.path_head->n_paths, 0);
    assert_int_equal(w->paths.path_head->n_micros, 0);
}

/* When there is room for more, what is looked for elsewhere goes. */
static void test_more_room(void **state)
{
    struct world *w = *state;
    struct dp_path_head *head = w->paths.path_head;
    uint32_t n_stay = 0, refs[40];
    struct dp_micro *micro[40];

    for (int i = 0; i < 40; i++) {
        refs[i] = make(w, i);
        micro[i] = learn(w, 7, refs[i], 5);
    }
    head->micro_last = 2 * head->micro_last + 1;
    assert_false(sweep(w, NOW));
    for (int i = 0; i < 40; i++) {
        uint32_t key = DP_MICRO(7, 0, 0, 0, DP_PATH_READY);
        bool there = (dp_path_hash(head, key, refs[i], 7) ^ (micro[i] - w->paths.micros)) < DP_MICRO_PLACES;

        assert_int_equal(micro[i]->word != DP_PATH_FREE, there);
        n_stay += there;
    }
    assert_in_range(n_stay, 1, 39);
    assert_int_equal(head->n_micros, n_stay);
}

/* Nothing is looked for on ports that have no microflow any more. */
static void test_ports(void **state)
{
    struct world *w = *state;
    struct dp_path_head *head = w->paths.path_head;
    uint32_t ref = make(w, 0);

    learn(w, 7, ref, 5);
    learn(w, 8, ref, 5)->conn[0].version--;
    head->port[9] = 1;
    assert_false(sweep(w, NOW));
    assert_int_equal(head->port[7], 1);
    assert_int_equal(head->port[8], 0);
    assert_int_equal(head->port[9], 0);
    assert_false(sweep(w, NOW + FRESH_MS));
    assert_int_equal(head->port[7], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, world_create, world_destroy)
        TEST(test_microflows),
        TEST(test_paths),
        TEST(test_more_room),
        TEST(test_ports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
