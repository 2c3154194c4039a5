/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and keys for the tests of ovs/lookup/lookup.h. */
#ifndef TESTS_UNIT_LOOKUP_WORLD_H
#define TESTS_UNIT_LOOKUP_WORLD_H 1

#include <string.h>

#include "flow.h"
#include "openvswitch/match.h"
#include "ovs-rcu.h"
#include "ovs/lookup/lookup_private.h"
#include "packets.h"
#include "random.h"
#include "util.h"

/* What rules lead to, with what the linear search needs. */
struct target {
    struct dpif_xdp_rule rule;
    struct match match;
    uint64_t values[FLOW_U64S];         /* Of 'rule'. */
    bool inserted;
};

static inline uint32_t
pick(uint32_t n)
{
    return random_uint32() % n;
}

/* Flows of a small world, so that many rules match many flows. */
static inline void
random_flow(struct flow *flow)
{
    static const ovs_be16 types[] = {
        CONSTANT_HTONS(ETH_TYPE_IP), CONSTANT_HTONS(ETH_TYPE_IP),
        CONSTANT_HTONS(ETH_TYPE_IPV6), CONSTANT_HTONS(ETH_TYPE_ARP),
        CONSTANT_HTONS(0x88b5),
    };
    static const uint8_t protocols[] = {
        IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_GRE
    };

    memset(flow, 0, sizeof *flow);
    flow->in_port.odp_port = u32_to_odp(1 + pick(3));
    flow->recirc_id = pick(4) ? 0 : pick(3);
    flow->ct_state = pick(4) ? 0 : CS_TRACKED | CS_ESTABLISHED;
    flow->pkt_mark = pick(5) ? 0 : pick(3);
    flow->dl_dst.ea[0] = 2;
    flow->dl_dst.ea[5] = pick(3);
    flow->dl_src.ea[0] = 2;
    flow->dl_src.ea[5] = pick(3);
    flow->dl_type = types[pick(ARRAY_SIZE(types))];
    if (!pick(3)) {
        flow->vlans[0].tpid = htons(ETH_TYPE_VLAN);
        flow->vlans[0].tci = htons(VLAN_CFI | pick(3));
    }
    if (!pick(6)) {
        flow->tunnel.ip_dst = htonl(0x0a000001);
        flow->tunnel.ip_src = htonl(0x0a000002);
        flow->tunnel.tun_id = htonll(pick(3));
    }
    if (flow->dl_type == htons(ETH_TYPE_IPV6)) {
        flow->ipv6_src.s6_addr[0] = 0xfc;
        flow->ipv6_src.s6_addr[15] = pick(4);
        flow->ipv6_dst.s6_addr[0] = 0xfc;
        flow->ipv6_dst.s6_addr[7] = pick(2);
        flow->ipv6_dst.s6_addr[15] = pick(4);
    } else if (flow->dl_type != htons(0x88b5)) {
        flow->nw_src = htonl(0x0a000000 | pick(4) << 16 | pick(4));
        flow->nw_dst = htonl(0x0a000000 | pick(4) << 16 | pick(4));
    }
    if (flow->dl_type == htons(ETH_TYPE_ARP)) {
        flow->nw_proto = 1 + pick(2);
    } else if (flow->dl_type != htons(0x88b5)) {
        flow->nw_proto = protocols[pick(ARRAY_SIZE(protocols))];
        flow->nw_ttl = 64;
        if (flow->nw_proto == IPPROTO_TCP || flow->nw_proto == IPPROTO_UDP) {
            flow->tp_src = htons(pick(4));
            flow->tp_dst = htons(pick(4));
        }
        if (flow->nw_proto == IPPROTO_TCP) {
            flow->tcp_flags = htons(pick(3));
        }
    }
}

/* A rule that matches some flows of that world. */
static inline void
random_match(struct match *match)
{
    struct flow *mask = &match->wc.masks;

    memset(match, 0, sizeof *match);
    random_flow(&match->flow);
    mask->in_port.odp_port = u32_to_odp(UINT32_MAX);
    mask->recirc_id = pick(4) ? UINT32_MAX : 0;
    mask->dl_type = pick(4) ? OVS_BE16_MAX : 0;
    mask->vlans[0].tci = pick(2) ? OVS_BE16_MAX : 0;
    mask->ct_state = pick(3) ? 0 : UINT8_MAX;
    mask->dl_dst.ea[5] = pick(2) ? 0 : UINT8_MAX;
    mask->nw_dst = pick(2) ? 0 : be32_prefix_mask(8 + pick(3) * 8);
    mask->nw_src = pick(3) ? 0 : OVS_BE32_MAX;
    mask->ipv6_dst = ipv6_create_mask(pick(2) ? 0 : pick(129));
    mask->nw_proto = pick(3) ? 0 : UINT8_MAX;
    mask->tp_dst = pick(3) ? 0 : OVS_BE16_MAX;
    mask->tcp_flags = pick(5) ? 0 : OVS_BE16_MAX;
    mask->tunnel.tun_id = pick(4) ? 0 : OVS_BE64_MAX;

    /* Often only what comes first in struct flow. */
    if (!pick(3)) {
        for (size_t i = FLOW_U64_OFFSET(in_port) + 1 + pick(10);
             i < FLOW_U64S; i++) {
            *flow_u64_lvalue(mask, i) = 0;
        }
    }
}

/* Does nothing but return it if there is one with an equal match, else returns
 * NULL. */
static inline struct dpif_xdp_rule *
target_insert(struct dpif_xdp_cls *cls, struct target *target)
{
    struct subtable *subtable = dpif_xdp_cls_subtable(cls, &target->match.wc);
    struct dpif_xdp_place place;
    struct dpif_xdp_rule *other = dpif_xdp_cls_place(subtable,
                                                     &target->match.flow,
                                                     &place);

    if (!other) {
        dpif_xdp_cls_insert(cls, &target->rule, &place, target->values);
    }
    target->inserted = !other;
    return other;
}

/* Frees what readers may hold, once the caller has none of it. */
static inline void
target_remove(struct dpif_xdp_cls *cls, struct target *target)
{
    struct dpif_xdp_rule *rule = xmalloc(sizeof *rule);

    dpif_xdp_cls_remove(cls, &target->rule);
    target->inserted = false;
    *rule = target->rule;
    ovsrcu_postpone(dpif_xdp_rule_uninit, rule);
    ovsrcu_postpone(free, rule);
}

/* A rule for 'nw_dst' by prefix length 'plen'. */
static inline void
prefix_target(struct target *target, uint32_t nw_dst, int plen)
{
    memset(target, 0, sizeof *target);
    target->match.flow.in_port.odp_port = u32_to_odp(1);
    target->match.flow.dl_type = htons(ETH_TYPE_IP);
    target->match.flow.nw_dst = htonl(nw_dst);
    target->match.wc.masks.in_port.odp_port = u32_to_odp(UINT32_MAX);
    target->match.wc.masks.dl_type = OVS_BE16_MAX;
    target->match.wc.masks.nw_dst = be32_prefix_mask(plen);
}

static inline void
ipv4_key(struct dpif_xdp_key *key, uint32_t nw_dst)
{
    struct flow flow;

    memset(&flow, 0, sizeof flow);
    flow.in_port.odp_port = u32_to_odp(1);
    flow.dl_type = htons(ETH_TYPE_IP);
    flow.nw_dst = htonl(nw_dst);
    flow.nw_proto = IPPROTO_UDP;
    dpif_xdp_key_from_flow(&flow, key);
}

#endif /* tests/unit/lookup_world.h */
