/* SPDX-License-Identifier: Apache-2.0 */
/* ovs/lookup/known_masks.h against lib/odp-util.c, which parses every mask. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "lookup_world.h"
#include "odp-util.h"
#include "openvswitch/ofpbuf.h"
#include "openvswitch/vlog.h"
#include "ovs/lookup/known_masks.h"

#define N 300
#define N_MASKS 20
#define N_PAIRS 300000

struct text {
    uint32_t key[120], mask[120];
    size_t key_len, mask_len;
};

/* A flow and a mask as a caller passes them. */
static void
random_text(struct text *text)
{
    struct match match;
    struct odp_flow_key_parms parms = {
        .flow = &match.flow,
        .mask = &match.wc.masks,
        .support = { .max_vlan_headers = SIZE_MAX, .recirc = true,
                     .ct_state = true },
    };
    struct ofpbuf key, mask;

    random_match(&match);
    match.flow.packet_type = htonl(PT_ETH);
    if (match.flow.nw_proto == IPPROTO_GRE) {
        match.flow.nw_proto = pick(2) ? IPPROTO_ICMPV6 : IPPROTO_IGMP;
    }
    if (match.flow.nw_proto == IPPROTO_ICMPV6) {
        match.flow.dl_type = htons(ETH_TYPE_IPV6);
        match.flow.tp_src = htons(134 + pick(3));
        match.wc.masks.nw_proto = UINT8_MAX;
        match.wc.masks.tp_src = match.wc.masks.tp_dst = htons(0xff);
    }
    match.flow.nw_frag = pick(3) ? 0 : FLOW_NW_FRAG_ANY | pick(2) << 1;
    match.wc.masks.nw_frag = pick(2) ? 0 : FLOW_NW_FRAG_MASK;
    match.wc.masks.dl_type = OVS_BE16_MAX;
    ofpbuf_use_stack(&key, text->key, sizeof text->key);
    odp_flow_key_from_flow(&parms, &key);
    text->key_len = key.size;
    ofpbuf_use_stack(&mask, text->mask, sizeof text->mask);
    parms.key_buf = &key;
    odp_flow_key_from_mask(&parms, &mask);
    text->mask_len = mask.size;
}

static const struct nlattr *
attributes(const uint32_t *buf)
{
    return (const struct nlattr *) buf;
}

/* Any mask with any key. */
static void
test_pairs(void **state)
{
    struct text *texts = xcalloc(N, sizeof *texts);
    struct target **targets = xcalloc(N_PAIRS, sizeof *targets);
    struct dpif_xdp_known_masks known;
    size_t n_known = 0, n_refused = 0, n_targets = 0;
    struct dpif_xdp_cls cls;

    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_OFF);
    random_set_seed(12);
    dpif_xdp_cls_init(&cls);
    dpif_xdp_known_masks_init(&known);
    for (size_t i = 0; i < N; i++) {
        random_text(&texts[i]);
    }
    for (size_t i = 0; i < N_PAIRS; i++) {
        const struct text *k = &texts[pick(N)], *m = &texts[pick(N_MASKS)];
        const struct nlattr *mask = attributes(m->mask);
        struct subtable *subtable, *parsed;
        struct flow_wildcards wc;
        struct miniflow map;
        struct flow key;

        if (odp_flow_key_to_flow(attributes(k->key), k->key_len, &key,
                                 NULL)) {
            continue;
        }
        miniflow_map_init(&map, &key);
        subtable = dpif_xdp_known_masks_find(&known, &cls, mask, m->mask_len,
                                             &key, &map.map);
        if (odp_flow_key_to_mask(mask, m->mask_len, &wc, &key, NULL)) {
            assert_null(subtable);
            n_refused++;
            continue;
        }
        parsed = dpif_xdp_cls_subtable(&cls, &wc);
        if (!parsed->n_rules) {
            struct target *target = targets[n_targets++]
                = xzalloc(sizeof *target);

            target->match.flow = key;
            target->match.wc = wc;
            target_insert(&cls, target);
        }
        if (subtable) {
            assert_ptr_equal(subtable, parsed);
            n_known++;
        } else {
            dpif_xdp_known_masks_add(&known, &cls, mask, m->mask_len, &key,
                                     &map.map, parsed);
        }
    }
    assert_true(n_known > 5000);
    assert_true(n_refused > N_PAIRS / 20);

    /* Nobody knows a subtable that is gone. */
    while (n_targets) {
        target_remove(&cls, targets[--n_targets]);
    }
    for (size_t i = 0; i < N * N_MASKS; i++) {
        const struct text *k = &texts[i / N_MASKS], *m = &texts[i % N_MASKS];
        struct miniflow map;
        struct flow key;

        if (!odp_flow_key_to_flow(attributes(k->key), k->key_len, &key,
                                  NULL)) {
            miniflow_map_init(&map, &key);
            assert_null(dpif_xdp_known_masks_find(
                            &known, &cls, attributes(m->mask), m->mask_len,
                            &key, &map.map));
        }
    }
    dpif_xdp_known_masks_destroy(&known);
    dpif_xdp_cls_destroy(&cls);
    ovsrcu_exit();
    for (size_t i = 0; i < N_PAIRS; i++) {
        free(targets[i]);
    }
    free(targets);
    free(texts);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
