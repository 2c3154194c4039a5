/* SPDX-License-Identifier: Apache-2.0 */
/* struct flow and its wildcards -> keys and masks of dp/key.h. */
#include <config.h>

#include "ovs/fastpath/compile_private.h"

#include <netinet/in.h>
#include <netinet/ip6.h>
#include <string.h>

#include "flow.h"
#include "packets.h"
#include "dp/record.h"

/* Which fields share a word depends on the protocol. */
struct kind {
    ovs_be16 dl_type;
    uint8_t nw_proto;                   /* 0 if it is not known. */
};

static void move(struct flow *, struct kind, union dp_key *);
static void copy(const struct flow *, struct kind, union dp_key *);

void
dpif_xdp_compile_key(const struct flow *flow, union dp_key *key)
{
    copy(flow, (struct kind) { flow->dl_type, flow->nw_proto }, key);
}

/* Groups of key words that a program needs for packets that may match, as far
 * as that follows from the mask and the kind of flow.  One that does not parse
 * IPv4 hands all IPv4 packets up, also where a flow is about their Ethernet
 * addresses alone. */
static uint32_t
mask_groups(const union dp_key *mask, struct kind kind)
{
    uint32_t groups = 1u << DP_KEY_GROUP_ETHERNET;
    ovs_be16 type = kind.dl_type;

    groups |= (type == htons(ETH_TYPE_IP) ? 1u << DP_KEY_GROUP_IP4
               : type == htons(ETH_TYPE_IPV6) ? 1u << DP_KEY_GROUP_IP6
               : eth_type_mpls(type) ? 1u << DP_KEY_GROUP_MPLS
               : type == htons(ETH_TYPE_ARP) || type == htons(ETH_TYPE_RARP)
               ? 1u << DP_KEY_GROUP_ARP : 0);
    if (mask->nd_reserved.raw || mask->w[10] || mask->w[11] || mask->w[12]
        || mask->w[13]) {
        groups |= 1u << DP_KEY_GROUP_ND;
    }
    if (mask->dp_hash) {
        groups |= 1u << DP_KEY_GROUP_RECIRC;
    }
    if (mask->skb_priority || mask->skb_mark) {
        groups |= 1u << DP_KEY_GROUP_MARK;
    }
    if (mask->ct_mark || mask->w[16] || mask->w[17] || mask->w[18]
        || mask->w[19] || mask->w[20] || mask->w[21] || mask->w[22]) {
        groups |= 1u << DP_KEY_GROUP_CT;
    }
    for (int i = DP_KEY_WORD(tun_id); i < DP_KEY_WORDS; i++) {
        if (mask->w[i]) {
            groups |= 1u << DP_KEY_GROUP_TUNNEL;
        }
    }
    return groups;
}

/* The same, as far as it follows from 'flow'. */
static uint32_t
flow_groups(const union dp_key *mask, const struct flow *flow)
{
    uint32_t groups = 0;

    if (flow->vlans[0].tci) {
        groups |= 1u << DP_KEY_GROUP_VLAN;
    }
    if (flow->vlans[1].tci) {
        groups |= 1u << DP_KEY_GROUP_QINQ;
    }
    if (flow->nw_proto == IPPROTO_ICMPV6 && mask->tcp_flags.raw) {
        groups |= 1u << DP_KEY_GROUP_ND;
    }
    if (flow->nw_proto == IPPROTO_IGMP && mask->igmp_group.raw
        && flow->dl_type == htons(ETH_TYPE_IP)) {
        groups |= 1u << DP_KEY_GROUP_IGMP;
    }
    if (flow->recirc_id) {
        groups |= 1u << DP_KEY_GROUP_RECIRC;
    }
    return groups;
}

/* is_all_zeros() goes byte by byte, at the cost of a tenth of an insertion. */
static bool
is_empty(const struct flow *flow)
{
    const uint64_t *words = (const uint64_t *) flow;
    uint64_t any = 0;

    for (size_t i = 0; i < FLOW_U64S; i++) {
        any |= words[i];
    }
    return !any;
}

/* Translates 'wc' for flows of 'kind'. */
static void
compile_mask(const struct flow_wildcards *wc, struct kind kind,
             struct dpif_xdp_compiled_mask *ret)
{
    struct flow rest = wc->masks;

    move(&rest, kind, &ret->mask);
    rest.packet_type = 0;
    ret->reason = (!is_empty(&rest) ? DPIF_XDP_COMPILE_KEY_FIELD
                   : wc->masks.dl_type != OVS_BE16_MAX
                   ? DPIF_XDP_COMPILE_KEY_TYPE : DPIF_XDP_COMPILE_OK);
    ret->groups = mask_groups(&ret->mask, kind);
    ret->dl_type = kind.dl_type;
    ret->nw_proto = kind.nw_proto;
    ret->valid = true;
}

enum dpif_xdp_compile_reason
dpif_xdp_compile_match(const struct flow *flow,
                       const struct flow_wildcards *wc,
                       struct dpif_xdp_compiled_mask *last,
                       const struct dp_capability *caps, union dp_key *key,
                       union dp_key *mask)
{
    struct dpif_xdp_compiled_mask own;
    struct kind kind = {
        .dl_type = flow->dl_type,
        .nw_proto = wc->masks.nw_proto == UINT8_MAX ? flow->nw_proto : 0,
    };

    if (!last) {
        last = &own;
        last->valid = false;
    }
    if (!last->valid || last->dl_type != kind.dl_type
        || last->nw_proto != kind.nw_proto) {
        compile_mask(wc, kind, last);
    }

    /* Only Ethernet frames reach the program. */
    if (flow->packet_type != htonl(PT_ETH)) {
        return DPIF_XDP_COMPILE_KEY_FIELD;
    }
    if (last->reason) {
        return last->reason;
    }
    if ((last->groups | flow_groups(&last->mask, flow)) & ~caps->key_groups) {
        return DPIF_XDP_COMPILE_KEY_PROGRAM;
    }

    *mask = last->mask;
    copy(flow, kind, key);
    for (int i = 0; i < DP_KEY_WORDS; i++) {
        key->w[i] &= mask->w[i];
    }
    return DPIF_XDP_COMPILE_OK;
}

bool
dpif_xdp_compile_filter(const struct flow *flow,
                        const struct flow_wildcards *wc, union dp_key *key,
                        union dp_key *mask)
{
    struct kind kind = {
        .dl_type = flow->dl_type,
        .nw_proto = wc->masks.nw_proto == UINT8_MAX ? flow->nw_proto : 0,
    };
    struct dpif_xdp_compiled_mask compiled;

    compile_mask(wc, kind, &compiled);
    if (compiled.reason == DPIF_XDP_COMPILE_KEY_FIELD) {
        return false;
    }
    *mask = compiled.mask;
    copy(flow, kind, key);
    for (int i = 0; i < DP_KEY_WORDS; i++) {
        key->w[i] &= mask->w[i];
    }
    return true;
}

#define MOVE(TO, FROM)                                      \
    do {                                                    \
        BUILD_ASSERT(sizeof (TO) == sizeof (FROM));         \
        memcpy(&(TO), &(FROM), sizeof (TO));                \
        if (clear) {                                        \
            memset(&(FROM), 0, sizeof (FROM));              \
        }                                                   \
    } while (0)

static inline void ALWAYS_INLINE
move_metadata(struct flow *data, bool clear, struct kind kind,
              union dp_key *key)
{
    MOVE(key->in_port, data->in_port.odp_port);
    MOVE(key->recirc_id, data->recirc_id);
    MOVE(key->dp_hash, data->dp_hash);
    MOVE(key->skb_priority, data->skb_priority);
    MOVE(key->skb_mark, data->pkt_mark);
    MOVE(key->ct_state, data->ct_state);
    MOVE(key->ct_proto, data->ct_nw_proto);
    MOVE(key->ct_zone, data->ct_zone);
    MOVE(key->ct_mark, data->ct_mark);
    MOVE(key->ct_label, data->ct_label);
    MOVE(key->ct_tp_src, data->ct_tp_src);
    MOVE(key->ct_tp_dst, data->ct_tp_dst);
    if (kind.dl_type == htons(ETH_TYPE_IPV6)) {
        MOVE(key->ct_ip6_src, data->ct_ipv6_src);
        MOVE(key->ct_ip6_dst, data->ct_ipv6_dst);
    } else {
        MOVE(key->ct_ip4_src, data->ct_nw_src);
        MOVE(key->ct_ip4_dst, data->ct_nw_dst);
    }
}

/* Of the flags those that Open vSwitch has so far, of options as many as
 * programs pop. */
static inline void ALWAYS_INLINE
move_tunnel(struct flow *data, bool clear, union dp_key *key)
{
    struct flow_tnl *tunnel = &data->tunnel;

    BUILD_ASSERT(FLOW_TNL_F_UDPIF == DP_TUN_OPTIONS);
    BUILD_ASSERT(FLOW_TNL_F_KEY == DP_TUN_KEY);
    BUILD_ASSERT(FLOW_TNL_F_CSUM == DP_TUN_CSUM);
    BUILD_ASSERT(FLOW_TNL_F_OAM == DP_TUN_OAM);
    key->tun_flags = tunnel->flags;
    memcpy(key->tun_options, tunnel->metadata.opts.u8,
           sizeof key->tun_options);
    if (clear) {
        tunnel->flags = 0;
        memset(tunnel->metadata.opts.u8, 0, sizeof key->tun_options);
    }
    MOVE(key->tun_options_len, tunnel->metadata.present.len);
    MOVE(key->tun_id, tunnel->tun_id);
    MOVE(key->tun_tos, tunnel->ip_tos);
    MOVE(key->tun_ttl, tunnel->ip_ttl);
    MOVE(key->tun_tp_src, tunnel->tp_src);
    MOVE(key->tun_tp_dst, tunnel->tp_dst);
    MOVE(key->tun_ip4_src, tunnel->ip_src);
    MOVE(key->tun_ip4_dst, tunnel->ip_dst);
    MOVE(key->tun_ip6_src, tunnel->ipv6_src);
    MOVE(key->tun_ip6_dst, tunnel->ipv6_dst);
}

static inline void ALWAYS_INLINE
move_headers(struct flow *data, bool clear, struct kind kind,
             union dp_key *key)
{
    ovs_be16 type = kind.dl_type;
    bool ip4 = type == htons(ETH_TYPE_IP);
    bool ip6 = type == htons(ETH_TYPE_IPV6);
    bool arp = type == htons(ETH_TYPE_ARP) || type == htons(ETH_TYPE_RARP);

    MOVE(key->eth_dst, data->dl_dst);
    MOVE(key->eth_src, data->dl_src);
    MOVE(key->eth_type, data->dl_type);
    MOVE(key->vlan, data->vlans[0].qtag);
    MOVE(key->vlan2, data->vlans[1].qtag);
    MOVE(key->ip_proto, data->nw_proto);
    MOVE(key->ip_frag, data->nw_frag);

    if (ip4 || ip6) {
        MOVE(key->ip_tos, data->nw_tos);
        MOVE(key->ip_ttl, data->nw_ttl);
        MOVE(key->tp_src, data->tp_src);
        MOVE(key->tp_dst, data->tp_dst);
        MOVE(key->tcp_flags, data->tcp_flags);
        if (kind.nw_proto == IPPROTO_ICMPV6) {
            MOVE(key->nd_target, data->nd_target);
            MOVE(key->nd_sll, data->arp_sha);
            MOVE(key->nd_tll, data->arp_tha);
            MOVE(key->nd_reserved, data->igmp_group_ip4);
        }
    }
    if (ip4 || arp) {
        MOVE(key->ip4_src, data->nw_src);
        MOVE(key->ip4_dst, data->nw_dst);
    }
    if (ip4 && kind.nw_proto == IPPROTO_IGMP) {
        MOVE(key->igmp_group, data->igmp_group_ip4);
    } else if (arp) {
        memcpy(&key->arp_hw0, &data->arp_sha, ETH_ADDR_LEN);
        memcpy((uint8_t *) &key->arp_hw0 + ETH_ADDR_LEN, &data->arp_tha, 2);
        memcpy(&key->arp_hw1, (uint8_t *) &data->arp_tha + 2, 4);
        if (clear) {
            memset(&data->arp_sha, 0, sizeof data->arp_sha);
            memset(&data->arp_tha, 0, sizeof data->arp_tha);
        }
    } else if (ip6) {
        memcpy(&key->ip6_src_hi, &data->ipv6_src, 8);
        memcpy(&key->ip6_src_lo, &data->ipv6_src.s6_addr[8], 8);
        if (clear) {
            memset(&data->ipv6_src, 0, sizeof data->ipv6_src);
        }
        MOVE(key->ip6_dst, data->ipv6_dst);
        MOVE(key->ip6_label, data->ipv6_label);
    } else if (eth_type_mpls(type)) {
        MOVE(key->mpls01[0], data->mpls_lse[0]);
        MOVE(key->mpls01[1], data->mpls_lse[1]);
        MOVE(key->mpls2, data->mpls_lse[2]);
    }
}

void
dpif_xdp_compile_get_tunnel(const struct dp_record *record,
                            struct pkt_metadata *md)
{
    const char *words = (const char *) (record + 1);
    const uint8_t *more = (const uint8_t *) words + DP_RECORD_TUNNEL_LEN;
    struct flow_tnl *tunnel = &md->tunnel;
    union dp_key key;

    memcpy(key.w, words, sizeof key.w[0]);
    memcpy(&key.w[DP_KEY_WORD(tun_id)], words + sizeof key.w[0],
           DP_RECORD_TUNNEL_LEN - sizeof key.w[0]);
    md->in_port.odp_port = u32_to_odp(key.in_port);
    memset(tunnel, 0, offsetof(struct flow_tnl, metadata.opts));
    memcpy(&tunnel->tun_id, &key.tun_id, sizeof tunnel->tun_id);
    tunnel->flags = key.tun_flags;
    tunnel->ip_tos = key.tun_tos;
    tunnel->ip_ttl = key.tun_ttl;
    memcpy(&tunnel->tp_src, &key.tun_tp_src, sizeof tunnel->tp_src);
    memcpy(&tunnel->tp_dst, &key.tun_tp_dst, sizeof tunnel->tp_dst);
    memcpy(&tunnel->ip_src, &key.tun_ip4_src, sizeof tunnel->ip_src);
    memcpy(&tunnel->ip_dst, &key.tun_ip4_dst, sizeof tunnel->ip_dst);
    memcpy(&tunnel->ipv6_src, &key.tun_ip6_src, sizeof tunnel->ipv6_src);
    memcpy(&tunnel->ipv6_dst, &key.tun_ip6_dst, sizeof tunnel->ipv6_dst);
    if (record->has & DP_RECORD_OPTIONS) {
        tunnel->metadata.present.len = more[DP_RECORD_OPTIONS_LEN - 1];
        memcpy(tunnel->metadata.opts.u8, more, tunnel->metadata.present.len);
        return;
    }
    tunnel->metadata.present.len = key.tun_options_len;
    memcpy(tunnel->metadata.opts.u8, key.tun_options,
           MIN(key.tun_options_len, sizeof key.tun_options));
}

/* Fills '*key' with the fields of 'data' (a flow or its mask) that a key has
 * for flows of 'kind', and zeroes them in 'data': what remains cannot be
 * expressed. */
static void
move(struct flow *data, struct kind kind, union dp_key *key)
{
    memset(key, 0, sizeof *key);
    move_metadata(data, true, kind, key);
    move_tunnel(data, true, key);
    move_headers(data, true, kind, key);
}

/* The same, but leaves 'data' as it is. */
static void
copy(const struct flow *data, struct kind kind, union dp_key *key)
{
    struct flow *same = CONST_CAST(struct flow *, data);

    memset(key, 0, sizeof *key);
    move_metadata(same, false, kind, key);
    move_tunnel(same, false, key);
    move_headers(same, false, kind, key);
}
