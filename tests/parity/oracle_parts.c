/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tables/need.h"
#include "core/tables/table.h"
#include "dp-packet.h"
#include "dp/seam_native.h"
#include "dp/parse.h"
#include "flow.h"
#include "openvswitch/match.h"
#include "ovs/fastpath/compile.h"
#include "tests/parity/oracle.h"

#define MAX_VLANS 2

/* Parses like a program with 'omit'.  Returns whether it does: what it leaves out goes to the engine. */
static bool parse(const uint8_t *frame, size_t len, const struct dp_omit *omit, union dp_key *key)
{
    struct dp_frame layers = { .local_stack = 0 };
    uint8_t *copy = malloc(len ? len : 1);
    struct dp_ctx ctx = { .start = copy, .data = copy, .end = copy + len, .omit = *omit };
    int parsed;

    memcpy(copy, frame, len);
    memset(key, 0, sizeof *key);
    key->in_port = PARITY_IN_PORT;
    parsed = dp_parse(&ctx, &layers, key, MAX_VLANS);
    free(copy);
    return parsed == DP_PARSED;
}

/* Whether a program with 'omit' parses all of the frame that the flow matches. */
static bool finds(const uint8_t *frame, size_t len, const struct dpif_xdp_compiled *compiled,
                  const struct dp_omit *omit)
{
    union dp_key key;
    bool equal = parse(frame, len, omit, &key);

    for (int i = 0; i < DP_KEY_WORDS; i++) {
        equal &= (key.w[i] & compiled->mask.w[i]) == compiled->key.w[i];
    }
    return equal;
}

static bool compile(const struct match *match, uint32_t groups, struct dpif_xdp_compiled *compiled)
{
    const struct dp_capability caps = {
        .table_version = DP_TABLE_VERSION,
        .key_groups = groups,
        .ops = DP_CAPABILITY_ALL_OPS,
    };
    bool matches;

    dpif_xdp_compile(&match->flow, &match->wc, NULL, NULL, 0, &caps, compiled, &matches);
    return matches;
}

/* The flow that matches 'byte' of what the frame has, with what datapath flows always match. */
static void make_flow(const struct flow *flow, size_t byte, struct match *match)
{
    memset(match, 0, sizeof *match);
    match->flow = *flow;
    ((uint8_t *) &match->wc.masks)[byte] = UINT8_MAX;
    match->wc.masks.dl_type = OVS_BE16_MAX;
    match->wc.masks.nw_proto = UINT8_MAX;
    memset(match->wc.masks.vlans, 0xff, MAX_VLANS * sizeof match->wc.masks.vlans[0]);
    memset(&match->wc.masks.packet_type, 0xff, sizeof match->wc.masks.packet_type);
    flow_zero_wildcards(&match->flow, &match->wc);
    match->flow.packet_type = htonl(PT_ETH);
}

/* Returns what is wrong, or NULL. */
static const char *check(const uint8_t *frame, size_t len, const struct match *match)
{
    struct dpif_xdp_compiled compiled;
    struct oxdp_flow flow = { .key = &compiled.key, .mask = &compiled.mask };
    struct oxdp_needs needs;
    struct dp_omit omit;

    if (!compile(match, DP_CAPABILITY_ALL_KEYS, &compiled)) {
        return NULL;                    /* Keys lack that field. */
    }
    needs = oxdp_needs_of_flow(&flow);
    omit = oxdp_needs_complement(&needs);
    if (!finds(frame, len, &compiled, &omit)) {
        return "a specialised program omits it: core/tables/need.c";
    }
    for (int i = 0; i < DP_N_KEY_GROUPS; i++) {
        omit = (struct dp_omit) { .parts = 1u << i };
        if (compile(match, DP_CAPABILITY_ALL_KEYS & ~(1u << i), &compiled) && !finds(frame, len, &compiled, &omit)) {
            return "a program without a group of keys gets the flow: ovs/fastpath/compile_key.c, mask_groups()";
        }
    }
    return NULL;
}

enum parity parity_parts(const uint8_t *frame, size_t len)
{
    static const struct dp_omit nothing;
    struct dp_packet packet;
    union dp_key key;
    struct flow flow;

    if (!parse(frame, len, &nothing, &key)) {
        return PARITY_BEYOND;
    }
    dp_packet_use_const(&packet, frame, len);
    pkt_metadata_init(&packet.md, u32_to_odp(PARITY_IN_PORT));
    flow_limit_vlans(MAX_VLANS);
    flow_extract(&packet, &flow);
    if (flow.nw_proto == IPPROTO_ICMPV6 && flow.dl_type != htons(ETH_TYPE_IPV6)) {
        return PARITY_BEYOND;           /* flow_extract() finds neighbour discovery there, too; keys of flows do not. */
    }
    for (size_t i = 0; i < sizeof flow; i++) {
        struct match match;
        const char *wrong;

        if (((const uint8_t *) &flow)[i]) {
            make_flow(&flow, i, &match);
            wrong = check(frame, len, &match);
            if (wrong) {
                fprintf(stderr, "byte %zu of struct flow, %s\n", i, wrong);
                parity_dump("frame", frame, len);
                return PARITY_DIFFERENT;
            }
        }
    }
    return PARITY_EQUAL;
}
