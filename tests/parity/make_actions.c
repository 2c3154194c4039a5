/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include <string.h>

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

    if (fate & 1) {
        nl_msg_put_u32(actions, OVS_ACTION_ATTR_OUTPUT, take_byte(&s));
        if (fate % 8 == 7) {
            nl_msg_put_u32(actions, OVS_ACTION_ATTR_OUTPUT, take_byte(&s));
        }
    } else {
        nl_msg_put_u32(actions, OVS_ACTION_ATTR_RECIRC, 1 + take_byte(&s));
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
