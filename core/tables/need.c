/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tables/need.h"

#include <string.h>

#include "core/tables/table.h"
#include "core/tables/table_private.h"

#define METADATA_WORDS DP_WORDS(DP_KEY_WORD(dp_hash), DP_KEY_WORD(ct_state))
#define OP_BIT(CODE) (UINT64_C(1) << (CODE))
#define OP(NAME) OP_BIT(DP_OP_##NAME)

static uint32_t parts_of_key(const union dp_key *key, const union dp_key *mask);
static uint32_t parts_of_fate(enum dp_fate fate);
static uint64_t ops_of_fate(enum dp_fate fate);

struct oxdp_needs oxdp_needs_of_flow(const struct oxdp_flow *flow)
{
    struct oxdp_needs needs = { .parts = parts_of_key(flow->key, flow->mask) | parts_of_fate(flow->fate) };

    for (uint32_t i = 0; i < flow->n_ops; i++) {
        needs.ops |= OP_BIT(flow->ops[i].code);
    }
    needs.ops |= ops_of_fate(flow->fate);
    for (int i = 0; i < DP_KEY_WORDS; i++) {
        needs.words |= flow->mask->w[i] ? DP_WORD(i) : 0;
    }
    oxdp_needs_close(&needs);
    return needs;
}

/* Reads an entry as a program would: if it becomes another flow meanwhile, the result mixes both. */
struct oxdp_needs oxdp_needs_of_table(const struct oxdp_table *table)
{
    const struct dp_tables *mem = &table->mem;
    struct oxdp_needs needs = { .parts = 0 };

    for (uint32_t i = 0; i < mem->n_flows; i++) {
        const struct dp_flow *flow = &mem->flows[i];
        uint32_t mask_index = DP_READ_FIRST(flow->mask);
        union dp_key key, mask;

        if (!mask_index || mask_index > DP_MAX_MASKS) {
            continue;
        }
        oxdp_table_flow_key(table, mask_index, i, &key);
        oxdp_table_mask_key(table, mask_index, &mask);
        needs.parts |= parts_of_key(&key, &mask) | parts_of_fate(flow->fate);
        needs.words |= mem->masks[mask_index].words;
        if (flow->n_ops && flow->ops < mem->n_ops) {
            needs.ops |= mem->ops[flow->ops].codes;
        }
        needs.ops |= ops_of_fate(flow->fate);
    }
    oxdp_needs_close(&needs);
    return needs;
}

void oxdp_needs_add(struct oxdp_needs *needs, const struct oxdp_needs *more)
{
    needs->parts |= more->parts;
    needs->words |= more->words;
    needs->ops |= more->ops;
}

struct dp_omit oxdp_needs_complement(const struct oxdp_needs *needs)
{
    return (struct dp_omit) {
        .parts = DP_ALL_PARTS & ~needs->parts,
        .words = DP_ALL_WORDS & ~DP_CORE_WORDS & ~needs->words,
        .ops = DP_CAPABILITY_ALL_OPS & ~needs->ops,
    };
}

bool oxdp_needs_met(const struct oxdp_needs *needs, const struct dp_omit *omit)
{
    return !(needs->parts & omit->parts || needs->words & omit->words || needs->ops & omit->ops);
}

/* Protocols whose packets may match.  A flow that does not match tags may match tagged packets. */
static uint32_t parts_of_key(const union dp_key *key, const union dp_key *mask)
{
    const dp_be16 present = dp_htons(DP_VLAN_PRESENT);
    uint32_t parts = DP_PART(ETHERNET);

    if (key->vlan.tci.raw & present.raw || !(mask->vlan.tci.raw & present.raw)) {
        parts |= DP_PART(VLAN);
        if (key->vlan2.tci.raw & present.raw || !(mask->vlan2.tci.raw & present.raw)) {
            parts |= DP_PART(QINQ);
        }
    }
    switch (dp_ntohs(key->eth_type)) {
    case DP_ETH_IP4:
        parts |= DP_PART(IP4) | (mask->igmp_group.raw ? DP_PART(IGMP) : 0);
        break;
    case DP_ETH_IP6:
        parts |= DP_PART(IP6);
        if (mask->nd_reserved.raw || (mask->tcp_flags.raw && key->ip_proto == DP_IP_ICMP6)) {
            parts |= DP_PART(ND);
        }
        for (int i = DP_KEY_WORD(nd_target); i < DP_PACKET_WORDS; i++) {
            parts |= mask->w[i] ? DP_PART(ND) : 0;
        }
        break;
    case DP_ETH_ARP:
    case DP_ETH_RARP:
        parts |= DP_PART(ARP);
        break;
    case DP_ETH_MPLS:
    case DP_ETH_MPLS_MC:
        parts |= DP_PART(MPLS);
        break;
    }
    return parts;
}

static uint32_t parts_of_fate(enum dp_fate fate)
{
    return fate == DP_FATE_RECIRC ? DP_PART(RECIRC) : 0;
}

static uint64_t ops_of_fate(enum dp_fate fate)
{
    return fate == DP_FATE_GROUP ? OP(GROUP) : 0;
}

void oxdp_needs_close(struct oxdp_needs *needs)
{
    if (needs->ops & ~OP(GROUP)) {
        needs->parts |= DP_PART_OPS;
    }
    if (needs->ops & (OP(SET_ND) | OP(SET_ND_EXT))) {
        needs->parts |= DP_PART(ND);
    }
    if (needs->parts & DP_PART(ND)) {
        needs->words |= DP_WORDS(DP_FIRST_COLD, DP_PACKET_WORDS);
    }
    if (needs->ops & (OP(HASH) | OP(TNL_PUSH) | OP(TNL_PUSH_CSUM))) {
        needs->words |= DP_WORD(2) | DP_WARM;
    }
    if (needs->ops & (OP(TNL_POP) | OP(TNL_POP_GENEVE))) {
        needs->words |= DP_WORDS(DP_KEY_WORD(tun_id), DP_KEY_WORD(tun_options));
    }
    if (needs->ops & OP(TNL_POP_GENEVE)) {
        needs->words |= DP_WORDS(DP_KEY_WORD(tun_options), DP_KEY_WORDS);
    }
    if (needs->ops & (OP(CT_CLEAR) | OP(CT))) {
        needs->words |= DP_WORDS(DP_KEY_WORD(ct_state), DP_KEY_WORD(tun_id));
    }
    if (needs->parts & DP_PART(RECIRC)
        || needs->ops & (OP(SET_MARK) | OP(SET_PRIORITY) | OP(HASH) | OP(CT_CLEAR) | OP(CT))) {
        needs->words |= METADATA_WORDS;
    }
}
