/* SPDX-License-Identifier: Apache-2.0 */
/* ovs/lookup/lookup.h against a linear search. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dp-packet.h"
#include "flow.h"
#include "openvswitch/match.h"
#include "openvswitch/meta-flow.h"
#include "ovs-atomic.h"
#include "ovs-rcu.h"
#include "ovs/base/compat.h"
#include "packets.h"
#include "random.h"
#include "tests/unit/lookup_world.h"
#include "util.h"

static bool
matches(const struct match *match, const struct flow *flow)
{
    for (size_t i = 0; i < FLOW_U64S; i++) {
        if ((flow_u64_value(&match->flow, i) ^ flow_u64_value(flow, i))
            & flow_u64_value(&match->wc.masks, i)) {
            return false;
        }
    }
    return true;
}

static void
check_result(const struct target *targets, size_t n_targets,
             const struct dpif_xdp_key *key, const struct dpif_xdp_rule *rule)
{
    struct flow flow;

    miniflow_expand(&key->mf, &flow);
    if (rule) {
        const struct target *target = CONTAINER_OF(rule, struct target, rule);

        assert_true(target->inserted);
        assert_true(matches(&target->match, &flow));
    } else {
        for (size_t i = 0; i < n_targets; i++) {
            assert_false(targets[i].inserted
                         && matches(&targets[i].match, &flow));
        }
    }
}

/* Looks 'n' flows up in all ways. */
static void
check_lookups(struct dpif_xdp_cls *cls, struct dpif_xdp_cache *cache,
              const struct target *targets, size_t n_targets,
              struct dpif_xdp_key *keys[], size_t n)
{
    struct dpif_xdp_rule *rules[NETDEV_MAX_BURST];
    struct dpif_xdp_cls_stats stats = { .n_miss = 0 };
    size_t n_found = 0;
    bool all;

    all = dpif_xdp_cls_lookup_batch(cls, cache, keys, n, rules, &stats);
    for (size_t i = 0; i < n; i++) {
        struct dpif_xdp_rule *rule = dpif_xdp_cls_lookup(cls, keys[i]);

        check_result(targets, n_targets, keys[i], rules[i]);
        check_result(targets, n_targets, keys[i], rule);
        n_found += rules[i] != NULL;
    }
    assert_int_equal(all, n_found == n);
    assert_int_equal(stats.n_miss, n - n_found);
    assert_int_equal(stats.n_cache_hit + stats.n_table_hit, n_found);
    if (!cache) {
        assert_int_equal(stats.n_cache_hit, 0);
    }
}

/* What packets bring: words that may be zero, other shapes, an RSS hash. */
static void
key_from_composed(const struct flow *flow, struct dpif_xdp_key *key)
{
    struct dp_packet packet;

    dp_packet_init(&packet, 0);
    flow_compose(&packet, flow, NULL, 8);
    pkt_metadata_from_flow(&packet.md, flow);
    dpif_xdp_key_from_packet(&packet, key, 0);
    dp_packet_uninit(&packet);
}

static void
check_random(size_t cache_size, uint32_t hash_mask)
{
    enum { N_TARGETS = 200, N_KEYS = 600 };
    struct target *targets = xcalloc(N_TARGETS, sizeof *targets);
    struct dpif_xdp_key *keys = xcalloc(N_KEYS, sizeof *keys);
    struct dpif_xdp_cache *cache = dpif_xdp_cache_create(cache_size);
    struct dpif_xdp_cls cls;

    dpif_xdp_cls_init(&cls);
    for (size_t i = 0; i < N_TARGETS; i++) {
        random_match(&targets[i].match);
    }
    for (size_t i = 0; i < N_KEYS; i++) {
        struct flow flow;

        random_flow(&flow);
        if (i % 2) {
            key_from_composed(&flow, &keys[i]);
        } else {
            dpif_xdp_key_from_flow(&flow, &keys[i]);
        }
        keys[i].hash &= hash_mask;
    }

    for (size_t round = 0; round < 400; round++) {
        struct target *target = &targets[pick(N_TARGETS)];
        struct dpif_xdp_key *burst[NETDEV_MAX_BURST];
        size_t n = 1 + pick(NETDEV_MAX_BURST);

        /* First more and more rules, then fewer and fewer. */
        if (!target->inserted) {
            if (pick(400) > round) {
                target_insert(&cls, target);
            }
        } else if (pick(400) < round) {
            target_remove(&cls, target);
        }
        if (!pick(20)) {
            dpif_xdp_cls_optimize(&cls);
        }
        for (size_t i = 0; i < n; i++) {
            burst[i] = &keys[pick(N_KEYS)];
        }
        check_lookups(&cls, cache, targets, N_TARGETS, burst, n);
        check_lookups(&cls, NULL, targets, N_TARGETS, burst, n);
        ovsrcu_quiesce();
    }

    for (size_t i = 0; i < N_TARGETS; i++) {
        if (targets[i].inserted) {
            target_remove(&cls, &targets[i]);
        }
    }
    assert_int_equal(dpif_xdp_cls_n_masks(&cls), 0);
    dpif_xdp_cls_destroy(&cls);
    dpif_xdp_cache_destroy(cache);
    free(keys);
    free(targets);
}

static void
test_random(void **state)
{
    for (uint32_t seed = 1; seed <= 3; seed++) {
        random_set_seed(seed);
        check_random(1 << 16, UINT32_MAX);
        check_random(16, UINT32_MAX);
        check_random(0, UINT32_MAX);
    }
}

/* All keys in one set of the cache, many with the same hash. */
static void
test_equal_hashes(void **state)
{
    random_set_seed(6);
    check_random(1 << 16, 0);
    check_random(1 << 16, 7 << 20);
}

/* A burst of two equal keys counts as 'expected'. */
static void
check_stats(struct dpif_xdp_cls *cls, struct dpif_xdp_cache *cache,
            struct dpif_xdp_key *key, struct dpif_xdp_cls_stats expected)
{
    struct dpif_xdp_cls_stats stats = { .n_miss = 0 };
    struct dpif_xdp_key *keys[] = { key, key };
    struct dpif_xdp_rule *rules[2];

    dpif_xdp_cls_lookup_batch(cls, cache, keys, 2, rules, &stats);
    assert_memory_equal(&stats, &expected, sizeof stats);
}

static void
test_stats(void **state)
{
    struct dpif_xdp_cache *cache = dpif_xdp_cache_create(64);
    struct dpif_xdp_cls_stats sum = { 1, 2, 3, 4 };
    struct dpif_xdp_key hit, miss;
    struct target targets[3];
    struct dpif_xdp_cls cls;

    dpif_xdp_cls_init(&cls);
    for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
        prefix_target(&targets[i], (10 + i) << 24, 8 + i);
        target_insert(&cls, &targets[i]);
    }
    assert_int_equal(dpif_xdp_cls_n_masks(&cls), 3);
    ipv4_key(&miss, 0x14000001);
    ipv4_key(&hit, 0x0c000001);

    check_stats(&cls, cache, &miss,
                (struct dpif_xdp_cls_stats) { .n_miss = 2, .n_mask_walk = 6 });
    check_stats(&cls, NULL, &miss,
                (struct dpif_xdp_cls_stats) { .n_miss = 2, .n_mask_walk = 6 });

    /* Hits without cache bring the mask to the front. */
    for (size_t i = 0; i < 3; i++) {
        struct dpif_xdp_cls_stats stats = { .n_miss = 0 };
        struct dpif_xdp_key *key = &hit;
        struct dpif_xdp_rule *rule;

        dpif_xdp_cls_lookup_batch(&cls, NULL, &key, 1, &rule, &stats);
        assert_ptr_equal(rule, &targets[2].rule);
    }
    dpif_xdp_cls_optimize(&cls);
    check_stats(&cls, cache, &hit, (struct dpif_xdp_cls_stats) {
                    .n_table_hit = 2, .n_mask_walk = 2 });
    check_stats(&cls, cache, &hit,
                (struct dpif_xdp_cls_stats) { .n_cache_hit = 2 });
    check_stats(&cls, NULL, &hit, (struct dpif_xdp_cls_stats) {
                    .n_table_hit = 2, .n_mask_walk = 2 });

    /* The cache holds the number of a rule that then becomes another's. */
    target_remove(&cls, &targets[2]);
    check_stats(&cls, cache, &hit,
                (struct dpif_xdp_cls_stats) { .n_miss = 2, .n_mask_walk = 4 });
    prefix_target(&targets[2], 0x0d000000, 8);
    target_insert(&cls, &targets[2]);
    check_stats(&cls, cache, &hit,
                (struct dpif_xdp_cls_stats) { .n_miss = 2, .n_mask_walk = 4 });

    dpif_xdp_cls_stats_add(&sum, &(struct dpif_xdp_cls_stats) {
                               10, 20, 30, 40 });
    assert_memory_equal(&sum, (&(struct dpif_xdp_cls_stats) {
                                   11, 22, 33, 44 }), sizeof sum);

    for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
        target_remove(&cls, &targets[i]);
    }
    dpif_xdp_cls_destroy(&cls);
    dpif_xdp_cache_destroy(cache);
}

/* A simple rule looks at the input port and the kind of packet, no more. */
static void
test_simple(void **state OVS_UNUSED)
{
    static const struct {
        enum mf_field_id field;
        bool simple;
    } rows[] = {
        { MFF_IN_PORT, true },
        { MFF_RECIRC_ID, true },
        { MFF_PACKET_TYPE, true },
        { MFF_ETH_TYPE, true },
        { MFF_VLAN_TCI, true },
        { MFF_IP_FRAG, true },
        { MFF_ETH_DST, false },
        { MFF_IP_PROTO, false },
        { MFF_IP_TTL, false },
        { MFF_IPV4_DST, false },
        { MFF_UDP_DST, false },
        { MFF_CT_STATE, false },
        { MFF_PKT_MARK, false },
        { MFF_DP_HASH, false },
        { MFF_TUN_ID, false },
        { MFF_MPLS_LABEL, false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct target target = { .inserted = false };
        struct dpif_xdp_cls cls;

        match_init_catchall(&target.match);
        mf_mask_field(mf_from_id(rows[i].field), &target.match.wc);
        /* Set with the TCI, but not in masks that ofproto asks for. */
        target.match.wc.masks.vlans[0].tpid = 0;
        dpif_xdp_cls_init(&cls);
        target_insert(&cls, &target);
        assert_int_equal(dpif_xdp_rule_is_simple(&target.rule),
                         rows[i].simple);
        target_remove(&cls, &target);
        dpif_xdp_cls_destroy(&cls);
    }
    ovsrcu_quiesce();
}

static void
test_rule_mask(void **state)
{
    struct dpif_xdp_cls cls;
    struct target target;

    random_set_seed(7);
    dpif_xdp_cls_init(&cls);
    for (size_t i = 0; i < 100; i++) {
        struct flow_wildcards wc;

        memset(&target, 0, sizeof target);
        random_match(&target.match);
        if (i % 2) {
            target.match.wc.masks.in_port.odp_port = 0;
        }
        target_insert(&cls, &target);
        wc = *dpif_xdp_rule_wc(&target.rule);
        target.match.wc.masks.in_port.odp_port = u32_to_odp(UINT32_MAX);
        assert_memory_equal(&wc, &target.match.wc, sizeof wc);
        target_remove(&cls, &target);
    }
    dpif_xdp_cls_destroy(&cls);
}

/* Keys with one hash find their rules in one set of the cache. */
static void
test_equal_hashes_cached(void **state)
{
    struct dpif_xdp_cache *cache = dpif_xdp_cache_create(64);
    struct dpif_xdp_cls_stats stats = { .n_miss = 0 };
    struct target targets[3];
    struct dpif_xdp_cls cls;

    dpif_xdp_cls_init(&cls);
    for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
        prefix_target(&targets[i], (10 + i) << 24, 8);
        target_insert(&cls, &targets[i]);
    }
    for (size_t i = 0; i < 2 * ARRAY_SIZE(targets); i++) {
        size_t j = i % ARRAY_SIZE(targets);
        struct dpif_xdp_key key, *keys = &key;
        struct dpif_xdp_rule *rule;

        ipv4_key(&key, (10 + j) << 24 | i);
        key.hash = 5;
        dpif_xdp_cls_lookup_batch(&cls, cache, &keys, 1, &rule, &stats);
        assert_ptr_equal(rule, &targets[j].rule);
    }
    assert_int_equal(stats.n_table_hit, ARRAY_SIZE(targets));
    assert_int_equal(stats.n_cache_hit, ARRAY_SIZE(targets));

    for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
        target_remove(&cls, &targets[i]);
    }
    dpif_xdp_cls_destroy(&cls);
    dpif_xdp_cache_destroy(cache);
}

/* A key is not taken for one that it starts like, but which lacks a word. */
static void
test_other_shape(void **state)
{
    struct dpif_xdp_cache *cache = dpif_xdp_cache_create(64);
    struct dpif_xdp_cls_stats stats = { .n_miss = 0 };
    struct dpif_xdp_key key, *keys = &key;
    struct dpif_xdp_cls cls;
    struct target target;
    struct flow flow;

    dpif_xdp_cls_init(&cls);
    memset(&target, 0, sizeof target);
    target.match.flow.in_port.odp_port = u32_to_odp(1);
    target.match.wc.masks.ct_state = UINT8_MAX;
    target_insert(&cls, &target);

    flow = target.match.flow;
    for (size_t i = 0; i < 3; i++) {
        struct dpif_xdp_rule *rule;

        flow.ct_state = i < 2 ? 0 : CS_TRACKED;
        dpif_xdp_key_from_flow(&flow, &key);
        dpif_xdp_cls_lookup_batch(&cls, cache, &keys, 1, &rule, &stats);
        assert_ptr_equal(rule, i < 2 ? &target.rule : NULL);
    }
    assert_int_equal(stats.n_cache_hit, 1);
    target_remove(&cls, &target);
    dpif_xdp_cls_destroy(&cls);
    dpif_xdp_cache_destroy(cache);
}

/* A rule that comes back is found, wherever the last one left its traces. */
static void
test_reinsert(void **state)
{
    struct dpif_xdp_key key, *keys = &key;
    struct target target, other;
    struct dpif_xdp_cls cls;

    dpif_xdp_cls_init(&cls);
    prefix_target(&target, 10 << 24, 8);
    prefix_target(&other, 11 << 24, 8);
    target_insert(&cls, &other);
    ipv4_key(&key, 10 << 24);
    for (size_t i = 0; i < 100; i++) {
        struct dpif_xdp_cls_stats stats = { .n_miss = 0 };
        struct dpif_xdp_rule *rule;

        target_insert(&cls, &target);
        dpif_xdp_cls_lookup_batch(&cls, NULL, &keys, 1, &rule, &stats);
        assert_ptr_equal(rule, &target.rule);
        assert_ptr_equal(dpif_xdp_cls_lookup(&cls, &key), &target.rule);
        target_remove(&cls, &target);
        assert_null(dpif_xdp_cls_lookup(&cls, &key));
    }
    target_remove(&cls, &other);
    dpif_xdp_cls_destroy(&cls);
}

/* There is one rule at most for each match. */
static void
test_equal_match(void **state)
{
    struct target target, equal, other_mask;
    struct dpif_xdp_cls cls;
    struct dpif_xdp_key key;

    dpif_xdp_cls_init(&cls);
    prefix_target(&target, 10 << 24, 8);
    prefix_target(&equal, (10 << 24) + 1, 8);   /* Under the mask. */
    prefix_target(&other_mask, 10 << 24, 9);
    assert_null(target_insert(&cls, &target));
    assert_null(target_insert(&cls, &other_mask));
    assert_ptr_equal(target_insert(&cls, &equal), &target.rule);

    target_remove(&cls, &target);
    target_remove(&cls, &other_mask);
    ipv4_key(&key, 10 << 24);
    assert_null(dpif_xdp_cls_lookup(&cls, &key));
    assert_null(target_insert(&cls, &equal));
    assert_ptr_equal(dpif_xdp_cls_lookup(&cls, &key), &equal.rule);
    target_remove(&cls, &equal);
    dpif_xdp_cls_destroy(&cls);
}

/* Two rules with one mask whose hashes are equal, made from the formula: the
 * factors of a product are exchanged. */
static void
test_equal_rule_hashes(void **state)
{
    const size_t word = FLOW_U64_OFFSET(ct_label);
    struct dpif_xdp_key keys[2], *burst[2] = { &keys[0], &keys[1] };
    struct dpif_xdp_cls_stats stats = { .n_miss = 0 };
    struct dpif_xdp_rule *rules[2];
    struct target targets[2];
    struct dpif_xdp_cls cls;
    uint64_t secret = 0, sum;

    dpif_xdp_cls_init(&cls);
    for (size_t i = 0; i < 2; i++) {
        struct flow flow;

        prefix_target(&targets[i], 10 << 24, 8);
        *flow_u64_lvalue(&targets[i].match.wc.masks, word) = UINT64_MAX;
        sum = secret + 12345;
        *flow_u64_lvalue(&targets[i].match.flow, word)
            = i ? (sum << 32 | sum >> 32) - secret : 12345;
        target_insert(&cls, &targets[i]);

        const struct subtable *subtable = targets[i].rule.subtable;

        for (size_t j = 0; j < subtable->n_words; j++) {
            if (subtable->words[j].word == word) {
                secret = subtable->words[j].secret;
            }
        }
        flow = targets[i].match.flow;
        dpif_xdp_key_from_flow(&flow, &keys[i]);
    }
    assert_int_equal(targets[0].rule.hash, targets[1].rule.hash);
    dpif_xdp_cls_lookup_batch(&cls, NULL, burst, 2, rules, &stats);
    for (size_t i = 0; i < 2; i++) {
        assert_ptr_equal(rules[i], &targets[i].rule);
        assert_ptr_equal(dpif_xdp_cls_lookup(&cls, &keys[i]),
                         &targets[i].rule);
    }
    for (size_t i = 0; i < 2; i++) {
        target_remove(&cls, &targets[i]);
    }
    dpif_xdp_cls_destroy(&cls);
}

/* More microflows than any set of the first cache could hold. */
static void
test_cache_grows(void **state)
{
    enum { N = 50000 };
    struct dpif_xdp_cache *cache = dpif_xdp_cache_create(4 * N);
    struct dpif_xdp_cls_stats stats = { .n_miss = 0 };
    struct dpif_xdp_cls cls;
    struct target target;

    dpif_xdp_cls_init(&cls);
    prefix_target(&target, 10 << 24, 8);
    target_insert(&cls, &target);
    for (size_t round = 0; round < 4; round++) {
        memset(&stats, 0, sizeof stats);
        for (uint32_t i = 0; i < N; i++) {
            struct dpif_xdp_rule *rule;
            struct dpif_xdp_key key;

            ipv4_key(&key, 10 << 24 | i);
            dpif_xdp_cls_lookup_batch(&cls, cache,
                                      (struct dpif_xdp_key *[]) { &key }, 1,
                                      &rule, &stats);
            assert_ptr_equal(rule, &target.rule);
        }
    }
    assert_in_range(stats.n_cache_hit, N * 9 / 10, N);
    target_remove(&cls, &target);
    dpif_xdp_cls_destroy(&cls);
    dpif_xdp_cache_destroy(cache);
}

static void
test_key_hash(void **state)
{
    struct dpif_xdp_key a, b;
    struct dp_packet packet;
    struct flow flow;

    memset(&flow, 0, sizeof flow);
    flow.dl_type = htons(ETH_TYPE_IP);
    flow.nw_src = htonl(0x0a000001);
    flow.nw_proto = IPPROTO_UDP;
    dp_packet_init(&packet, 0);
    flow_compose(&packet, &flow, NULL, 8);

    /* Without RSS the packet gets what Open vSwitch would compute. */
    dp_packet_reset_offload(&packet);
    dpif_xdp_key_from_packet(&packet, &a, 0);
    assert_true(dp_packet_rss_valid(&packet));
    assert_int_equal(dp_packet_get_rss_hash(&packet),
                     miniflow_hash_5tuple(&a.mf, 0));
    assert_int_equal(a.hash, dp_packet_get_rss_hash(&packet));

    dp_packet_set_rss_hash(&packet, 12345);
    dpif_xdp_key_from_packet(&packet, &a, 0);
    assert_int_equal(a.hash, 12345);

    /* A packet that recirculates, with other headers perhaps, gets it anew. */
    dpif_xdp_key_from_packet(&packet, &b, 1);
    assert_int_equal(dp_packet_get_rss_hash(&packet),
                     miniflow_hash_5tuple(&b.mf, 0));
    dpif_xdp_key_from_packet(&packet, &a, 0);
    assert_int_not_equal(a.hash, b.hash);
    dp_packet_uninit(&packet);

    /* Without 5-tuple, addresses spread flows over the cache. */
    flow.dl_type = htons(0x88b5);
    dpif_xdp_key_from_flow(&flow, &a);
    flow.dl_dst.ea[5] = 1;
    dpif_xdp_key_from_flow(&flow, &b);
    assert_int_not_equal(a.hash, b.hash);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_equal_hashes),
        cmocka_unit_test(test_equal_hashes_cached),
        cmocka_unit_test(test_equal_rule_hashes),
        cmocka_unit_test(test_other_shape),
        cmocka_unit_test(test_reinsert),
        cmocka_unit_test(test_equal_match),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_rule_mask),
        cmocka_unit_test(test_simple),
        cmocka_unit_test(test_cache_grows),
        cmocka_unit_test(test_key_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
