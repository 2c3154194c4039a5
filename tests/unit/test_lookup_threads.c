/* SPDX-License-Identifier: Apache-2.0 */
/* ovs/lookup/lookup.h: readers against a writer. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "dp-packet.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"
#include "tests/unit/lookup_world.h"

/* Readers look up what always has a rule and what has one at times: all rules
 * with one mask come and go, so that its table is made, grows and goes. */
#define N_STEADY 64
#define N_CHANGING 64

struct concurrent {
    struct dpif_xdp_cls cls;
    struct target steady[N_STEADY];
    struct target *changing[N_CHANGING];
    atomic_bool stop;
    atomic_count n_wrong;
    atomic_count n_found;
};

static void
concurrent_target(struct target *target, uint32_t i)
{
    prefix_target(target, 10 << 24 | i << 16, i < N_STEADY ? 16 + i % 8 : 24);
}

static void *
read_concurrently(void *c_)
{
    struct concurrent *c = c_;
    struct dpif_xdp_cache *cache = dpif_xdp_cache_create(1024);
    struct dpif_xdp_cls_stats stats = { .n_miss = 0 };
    struct dpif_xdp_key keys[NETDEV_MAX_BURST], *burst[NETDEV_MAX_BURST];
    struct dpif_xdp_rule *rules[NETDEV_MAX_BURST];
    bool stop;

    do {
        for (size_t i = 0; i < NETDEV_MAX_BURST; i++) {
            ipv4_key(&keys[i], (10 << 24
                                | pick(N_STEADY + N_CHANGING) << 16
                                | pick(64)));
            burst[i] = &keys[i];
        }
        dpif_xdp_cls_lookup_batch(&c->cls, cache, burst, NETDEV_MAX_BURST,
                                  rules, &stats);
        for (size_t i = 0; i < NETDEV_MAX_BURST; i++) {
            uint32_t dst = ntohl(MINIFLOW_GET_BE32(&keys[i].mf, nw_dst));
            uint32_t id = dst >> 16 & 0xff;

            if (rules[i]) {
                const struct target *target
                    = CONTAINER_OF(rules[i], struct target, rule);

                if (target->match.flow.nw_dst
                    != htonl(10 << 24 | id << 16)) {
                    atomic_count_inc(&c->n_wrong);
                }
                if (id >= N_STEADY) {
                    atomic_count_inc(&c->n_found);
                }
            } else if (id < N_STEADY) {
                atomic_count_inc(&c->n_wrong);
            }
        }
        ovsrcu_quiesce();
        atomic_read_relaxed(&c->stop, &stop);
    } while (!stop);

    dpif_xdp_cache_destroy(cache);
    return NULL;
}

static void
free_target(struct target *target)
{
    dpif_xdp_rule_uninit(&target->rule);
    target->match.flow.nw_dst = 0;
    free(target);
}

static void
test_concurrent(void **state)
{
    struct concurrent *c = xzalloc(sizeof *c);
    time_t deadline = time(NULL) + 30;
    pthread_t readers[2];
    size_t n_changes = 0;

    random_set_seed(8);
    dpif_xdp_cls_init(&c->cls);
    for (size_t i = 0; i < N_STEADY; i++) {
        concurrent_target(&c->steady[i], i);
        target_insert(&c->cls, &c->steady[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
        readers[i] = ovs_thread_create("reader", read_concurrently, c);
    }
    while ((n_changes < 5000 || atomic_count_get(&c->n_found) < 5000)
           && !atomic_count_get(&c->n_wrong) && time(NULL) < deadline) {
        size_t i = n_changes % N_CHANGING;
        struct target **target = &c->changing[i];

        if (*target) {
            dpif_xdp_cls_remove(&c->cls, &(*target)->rule);
            ovsrcu_postpone(free_target, *target);
            *target = NULL;
        } else {
            *target = xmalloc(sizeof **target);
            concurrent_target(*target, N_STEADY + i);
            target_insert(&c->cls, *target);
        }
        if (++n_changes % 50 == 0) {
            dpif_xdp_cls_optimize(&c->cls);
            ovsrcu_quiesce();
        }
    }
    atomic_store_relaxed(&c->stop, true);
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
        xpthread_join(readers[i], NULL);
    }
    assert_int_equal(atomic_count_get(&c->n_wrong), 0);
    assert_true(n_changes >= 5000);
    assert_true(atomic_count_get(&c->n_found) >= 5000);

    for (size_t i = 0; i < N_STEADY; i++) {
        target_remove(&c->cls, &c->steady[i]);
    }
    for (size_t i = 0; i < N_CHANGING; i++) {
        if (c->changing[i]) {
            dpif_xdp_cls_remove(&c->cls, &c->changing[i]->rule);
            ovsrcu_postpone(free_target, c->changing[i]);
        }
    }
    dpif_xdp_cls_destroy(&c->cls);
    ovsrcu_barrier();
    free(c);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_concurrent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
