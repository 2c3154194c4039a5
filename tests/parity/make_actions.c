/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include <string.h>

#include "csum.h"
#include "flow.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "openvswitch/ofpbuf.h"
#include "packets.h"
#include "tests/parity/oracle.h"

#define MAX_ACTIONS 6

struct source {
    const uint8_t *data;
    size_t size;
    size_t used;
};

static void take(struct source *, void *to, size_t n);
static uint8_t take_byte(struct source *);
static void make_set(struct source *, struct ofpbuf *);
static void make_push(struct source *, struct ofpbuf *);

size_t parity_make_actions(const uint8_t *data, size_t size, struct ofpbuf *actions)
{
    struct source s = { .data = data, .size = size };
    int n = take_byte(&s) % MAX_ACTIONS;

    for (int i = 0; i < n; i++) {
        switch (take_byte(&s) % 12) {
        case 0: {
            struct ovs_action_push_vlan vlan;

            take(&s, &vlan, sizeof vlan);
            vlan.vlan_tpid = htons(take_byte(&s) & 1 ? ETH_TYPE_VLAN : ETH_TYPE_VLAN_8021AD);
            vlan.vlan_tci |= htons(VLAN_CFI);
            nl_msg_put_unspec(actions, OVS_ACTION_ATTR_PUSH_VLAN, &vlan, sizeof vlan);
            break;
        }
        case 1:
            nl_msg_put_flag(actions, OVS_ACTION_ATTR_POP_VLAN);
            break;
        case 2: {
            struct ovs_action_push_mpls mpls;

            take(&s, &mpls, sizeof mpls);
            mpls.mpls_ethertype = htons(take_byte(&s) & 1 ? ETH_TYPE_MPLS : ETH_TYPE_MPLS_MCAST);
            nl_msg_put_unspec(actions, OVS_ACTION_ATTR_PUSH_MPLS, &mpls, sizeof mpls);
            break;
        }
        case 3: {
            static const uint16_t types[] = { ETH_TYPE_IP, ETH_TYPE_IPV6, ETH_TYPE_MPLS, ETH_TYPE_ARP };

            nl_msg_put_be16(actions, OVS_ACTION_ATTR_POP_MPLS, htons(types[take_byte(&s) % 4]));
            break;
        }
        case 4: {
            struct ovs_action_trunc trunc = { .max_len = 14 + take_byte(&s) };

            nl_msg_put_unspec(actions, OVS_ACTION_ATTR_TRUNC, &trunc, sizeof trunc);
            break;
        }
        case 5: {
            struct ovs_action_hash hash;

            hash.hash_alg = take_byte(&s) % 2;
            take(&s, &hash.hash_basis, sizeof hash.hash_basis);
            nl_msg_put_unspec(actions, OVS_ACTION_ATTR_HASH, &hash, sizeof hash);
            break;
        }
        case 6:
            nl_msg_put_flag(actions, OVS_ACTION_ATTR_CT_CLEAR);
            break;
        default:
            make_set(&s, actions);
            break;
        }
    }

    uint8_t fate = take_byte(&s);
    bool checks = (fate & 0xc0) == 0xc0;
    size_t check = 0, shorter = 0;

    if (checks) {
        size_t longer;

        check = nl_msg_start_nested(actions, OVS_ACTION_ATTR_CHECK_PKT_LEN);
        nl_msg_put_u16(actions, OVS_CHECK_PKT_LEN_ATTR_PKT_LEN, 2 * take_byte(&s));
        longer = nl_msg_start_nested(actions, OVS_CHECK_PKT_LEN_ATTR_ACTIONS_IF_GREATER);
        nl_msg_put_u32(actions, OVS_ACTION_ATTR_OUTPUT, 1);
        nl_msg_end_nested(actions, longer);
        shorter = nl_msg_start_nested(actions, OVS_CHECK_PKT_LEN_ATTR_ACTIONS_IF_LESS_EQUAL);
    }
    if ((fate & 0x31) == 0x31) {
        make_push(&s, actions);
    }
    if (fate % 16 == 14) {
        nl_msg_put_u32(actions, OVS_ACTION_ATTR_TUNNEL_POP, PARITY_TUNNEL_PORT + take_byte(&s) % PARITY_N_TUNNELS);
    } else if (fate & 1) {
        nl_msg_put_u32(actions, OVS_ACTION_ATTR_OUTPUT, take_byte(&s));
        if (fate % 8 == 7) {
            nl_msg_put_u32(actions, OVS_ACTION_ATTR_OUTPUT, take_byte(&s));
        }
    } else {
        nl_msg_put_u32(actions, OVS_ACTION_ATTR_RECIRC, 1 + take_byte(&s));
    }
    if (checks) {
        nl_msg_end_nested(actions, shorter);
        nl_msg_end_nested(actions, check);
    }
    return s.used;
}

static void make_set(struct source *s, struct ofpbuf *actions)
{
    static const struct { int type; size_t size; bool maskable; } fields[] = {
        { OVS_KEY_ATTR_ETHERNET, sizeof(struct ovs_key_ethernet), true },
        { OVS_KEY_ATTR_IPV4, sizeof(struct ovs_key_ipv4), true },
        { OVS_KEY_ATTR_IPV6, sizeof(struct ovs_key_ipv6), true },
        { OVS_KEY_ATTR_TCP, sizeof(struct ovs_key_tcp), true },
        { OVS_KEY_ATTR_UDP, sizeof(struct ovs_key_udp), true },
        { OVS_KEY_ATTR_SCTP, sizeof(struct ovs_key_sctp), true },
        { OVS_KEY_ATTR_ICMP, sizeof(struct ovs_key_icmp), false },
        { OVS_KEY_ATTR_ICMPV6, sizeof(struct ovs_key_icmpv6), false },
        { OVS_KEY_ATTR_ARP, sizeof(struct ovs_key_arp), true },
        { OVS_KEY_ATTR_ND, sizeof(struct ovs_key_nd), true },
        { OVS_KEY_ATTR_ND_EXTENSIONS, sizeof(struct ovs_key_nd_extensions), true },
        { OVS_KEY_ATTR_MPLS, sizeof(ovs_be32), true },
        { OVS_KEY_ATTR_SKB_MARK, sizeof(uint32_t), true },
        { OVS_KEY_ATTR_PRIORITY, sizeof(uint32_t), true },
    };
    int i = take_byte(s) % ARRAY_SIZE(fields);
    uint8_t how = take_byte(s);
    bool masked = fields[i].maskable && how & 1;
    uint8_t value[256] = { 0 };
    uint8_t *mask = value + fields[i].size;
    size_t nested;

    take(s, value, fields[i].size);
    if (masked) {
        memset(mask, 0, fields[i].size);
        if (how & 2) {
            take(s, mask, fields[i].size);
        } else {
            /* Whole bytes somewhere: closer to what flows have. */
            size_t from = take_byte(s) % fields[i].size;
            size_t n = 1 + take_byte(s) % 16;

            memset(mask + from, 0xff, MIN(n, fields[i].size - from));
        }
        for (size_t j = 0; j < fields[i].size; j++) {
            value[j] &= mask[j];
        }
    }
    if (fields[i].type == OVS_KEY_ATTR_IPV6) {
        ((struct ovs_key_ipv6 *) value)->ipv6_label &= htonl(0xfffff);
        ((struct ovs_key_ipv6 *) mask)->ipv6_label &= htonl(0xfffff);
    }
    nested = nl_msg_start_nested(actions, masked ? OVS_ACTION_ATTR_SET_MASKED : OVS_ACTION_ATTR_SET);
    nl_msg_put_unspec(actions, fields[i].type, value, fields[i].size * (masked ? 2 : 1));
    nl_msg_end_nested(actions, nested);
}

/* A tunnel's header as ofproto makes them, from any bytes: VXLAN, Geneve or GRE, in IPv4 or IPv6, with or without
 * checksum or sequence number. */
static void make_push(struct source *s, struct ofpbuf *actions)
{
    struct ovs_action_push_tnl tnl = { .tnl_port = u32_to_odp(1), .out_port = u32_to_odp(2) };
    uint8_t *header = (uint8_t *) tnl.header;
    uint8_t how = take_byte(s);
    bool ip6 = how & 1;
    bool with_csum = how & 2 || ip6;
    struct eth_header *eth = (struct eth_header *) header;
    uint8_t *l3 = header + ETH_HEADER_LEN;
    uint8_t *l4 = l3 + (ip6 ? IPV6_HEADER_LEN : IP_HEADER_LEN);
    uint8_t proto = how % 3 ? IPPROTO_UDP : IPPROTO_GRE;

    take(s, header, ETH_ADDR_LEN * 2);
    eth->eth_type = htons(ip6 ? ETH_TYPE_IPV6 : ETH_TYPE_IP);
    take(s, l3, l4 - l3);
    if (ip6) {
        l3[0] = 0x60 | (l3[0] & 0xf);
        l3[4] = l3[5] = 0;              /* The length. */
        l3[6] = proto;
    } else {
        struct ip_header *ip = (struct ip_header *) l3;

        ip->ip_ihl_ver = IP_IHL_VER(5, 4);
        ip->ip_tot_len = 0;
        ip->ip_id = 0;
        ip->ip_frag_off = 0;
        ip->ip_proto = proto;
        ip->ip_csum = 0;
        ip->ip_csum = csum(ip, sizeof *ip);
    }
    if (proto == IPPROTO_UDP) {
        struct udp_header *udp = (struct udp_header *) l4;
        size_t options = how % 3 == 2 ? how >> 4 : 0;

        udp->udp_dst = htons(how % 3 == 1 ? 4789 : 6081);
        udp->udp_csum = with_csum ? OVS_BE16_MAX : 0;
        take(s, udp + 1, 8 + 4 * options);
        tnl.header_len = l4 + sizeof *udp + 8 + 4 * options - header;
        tnl.tnl_type = how % 3 == 1 ? OVS_VPORT_TYPE_VXLAN : OVS_VPORT_TYPE_GENEVE;
    } else {
        struct gre_base_hdr *gre = (struct gre_base_hdr *) l4;
        bool key = how & 4, numbered = how & 8;

        gre->flags = htons((how & 2 ? GRE_CSUM : 0) | (key ? GRE_KEY : 0) | (numbered ? GRE_SEQ : 0));
        gre->protocol = htons(ETH_TYPE_TEB);
        if (key) {
            take(s, l4 + (how & 2 ? 8 : 4), 4);
        }
        tnl.header_len = l4 + 4 + (how & 2 ? 4 : 0) + (key ? 4 : 0) + (numbered ? 4 : 0) - header;
        tnl.tnl_type = ip6 ? OVS_VPORT_TYPE_IP6GRE : OVS_VPORT_TYPE_GRE;
    }
    nl_msg_put_unspec(actions, OVS_ACTION_ATTR_TUNNEL_PUSH, &tnl, sizeof tnl);
}

/* Zeroes behind the end. */
static void take(struct source *s, void *to, size_t n)
{
    size_t there = MIN(n, s->size - s->used);

    memset(to, 0, n);
    memcpy(to, s->data + s->used, there);
    s->used += there;
}

static uint8_t take_byte(struct source *s)
{
    uint8_t byte;

    take(s, &byte, 1);
    return byte;
}
