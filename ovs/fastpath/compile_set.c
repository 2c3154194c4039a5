/* SPDX-License-Identifier: Apache-2.0 */
/* Set actions -> operations of dp/table.h. */
#include <config.h>

#include "ovs/fastpath/compile_private.h"

#include <string.h>

#include "netlink.h"
#include "odp-netlink.h"
#include "packets.h"

typedef void set_func(struct dpif_xdp_program *, const struct nlattr *key,
                      bool masked);

static set_func set_ethernet, set_ipv4, set_ipv6, set_icmp, set_arp, set_nd;
static set_func set_nd_extensions, set_mpls;
static void set_ports(struct dpif_xdp_program *, const struct nlattr *key,
                      bool masked, enum dp_op_code);
static void set_u32(struct dpif_xdp_program *, const struct nlattr *key,
                    bool masked, enum dp_op_code);

void
dpif_xdp_compile_set(struct dpif_xdp_program *p, const struct nlattr *key,
                     bool masked)
{
    switch ((int) nl_attr_type(key)) {
    case OVS_KEY_ATTR_ETHERNET:
        set_ethernet(p, key, masked);
        break;
    case OVS_KEY_ATTR_IPV4:
        set_ipv4(p, key, masked);
        break;
    case OVS_KEY_ATTR_IPV6:
        set_ipv6(p, key, masked);
        break;
    case OVS_KEY_ATTR_TCP:
        set_ports(p, key, masked, DP_OP_SET_TCP);
        break;
    case OVS_KEY_ATTR_UDP:
        set_ports(p, key, masked, DP_OP_SET_UDP);
        break;
    case OVS_KEY_ATTR_SCTP:
        set_ports(p, key, masked, DP_OP_SET_SCTP);
        break;
    case OVS_KEY_ATTR_ICMP:
    case OVS_KEY_ATTR_ICMPV6:
        set_icmp(p, key, masked);
        break;
    case OVS_KEY_ATTR_ARP:
        set_arp(p, key, masked);
        break;
    case OVS_KEY_ATTR_ND:
        set_nd(p, key, masked);
        break;
    case OVS_KEY_ATTR_ND_EXTENSIONS:
        set_nd_extensions(p, key, masked);
        break;
    case OVS_KEY_ATTR_MPLS:
        set_mpls(p, key, masked);
        break;
    case OVS_KEY_ATTR_SKB_MARK:
        set_u32(p, key, masked, DP_OP_SET_MARK);
        break;
    case OVS_KEY_ATTR_PRIORITY:
        set_u32(p, key, masked, DP_OP_SET_PRIORITY);
        break;
    default:
        p->reason = DPIF_XDP_COMPILE_SET_FIELD;
        break;
    }
}

/* The value and mask of a set action as structs, whichever form it has. */
#define VALUE_AND_MASK(TYPE)                                                \
    const TYPE *v = nl_attr_get(key);                                       \
    TYPE exact;                                                             \
    memset(&exact, 0xff, sizeof exact);                                     \
    const TYPE *m = masked ? v + 1 : &exact

static void
set_ethernet(struct dpif_xdp_program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_ethernet);
    union dp_op_arg *arg = dpif_xdp_op_add(p, DP_OP_SET_ETH);
    uint8_t *value = (uint8_t *) arg->eth.value;
    uint8_t *mask = (uint8_t *) arg->eth.mask;

    memcpy(value, &v->eth_dst, ETH_ADDR_LEN);
    memcpy(value + ETH_ADDR_LEN, &v->eth_src, ETH_ADDR_LEN);
    memcpy(mask, &m->eth_dst, ETH_ADDR_LEN);
    memcpy(mask + ETH_ADDR_LEN, &m->eth_src, ETH_ADDR_LEN);
}

static void
set_ipv4(struct dpif_xdp_program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_ipv4);
    union dp_op_arg *arg = dpif_xdp_op_add(p, DP_OP_SET_IP4);

    arg->ip4.src = (OVS_FORCE uint32_t) v->ipv4_src;
    arg->ip4.dst = (OVS_FORCE uint32_t) v->ipv4_dst;
    arg->ip4.src_mask = (OVS_FORCE uint32_t) m->ipv4_src;
    arg->ip4.dst_mask = (OVS_FORCE uint32_t) m->ipv4_dst;
    arg->ip4.tos = v->ipv4_tos;
    arg->ip4.ttl = v->ipv4_ttl;
    arg->ip4.tos_mask = m->ipv4_tos;
    arg->ip4.ttl_mask = m->ipv4_ttl;
    if (!m->ipv4_src && !m->ipv4_dst) {
        /* The transport checksum stays: later fragments are welcome. */
        p->last->needs &= ~DP_HAS_FIRST;
    }
    p->rewritten = true;
}

static void
set_ipv6(struct dpif_xdp_program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_ipv6);
    ovs_be32 label_mask = m->ipv6_label & htonl(IPV6_LABEL_MASK);
    uint32_t n_before = p->out->n_ops;
    union dp_op_arg *arg;

    if (!is_all_zeros(&m->ipv6_src, sizeof m->ipv6_src)) {
        arg = dpif_xdp_op_add(p, DP_OP_SET_IP6_SRC);
        memcpy(arg->ip6_addr.value, &v->ipv6_src, sizeof v->ipv6_src);
        memcpy(arg->ip6_addr.mask, &m->ipv6_src, sizeof m->ipv6_src);
    }
    if (!is_all_zeros(&m->ipv6_dst, sizeof m->ipv6_dst)) {
        arg = dpif_xdp_op_add(p, DP_OP_SET_IP6_DST);
        memcpy(arg->ip6_addr.value, &v->ipv6_dst, sizeof v->ipv6_dst);
        memcpy(arg->ip6_addr.mask, &m->ipv6_dst, sizeof m->ipv6_dst);
    }
    if (label_mask || m->ipv6_tclass || m->ipv6_hlimit
        || p->out->n_ops == n_before) {
        arg = dpif_xdp_op_add(p, DP_OP_SET_IP6);
        arg->ip6.label = (OVS_FORCE uint32_t) (v->ipv6_label & label_mask);
        arg->ip6.label_mask = (OVS_FORCE uint32_t) label_mask;
        arg->ip6.tos = v->ipv6_tclass;
        arg->ip6.ttl = v->ipv6_hlimit;
        arg->ip6.tos_mask = m->ipv6_tclass;
        arg->ip6.ttl_mask = m->ipv6_hlimit;
    }
    p->rewritten = true;
}

/* struct ovs_key_tcp, _udp and _sctp have one layout. */
static void
set_ports(struct dpif_xdp_program *p, const struct nlattr *key, bool masked,
          enum dp_op_code code)
{
    VALUE_AND_MASK(struct ovs_key_tcp);
    union dp_op_arg *arg = dpif_xdp_op_add(p, code);

    arg->ports.src = (OVS_FORCE uint16_t) v->tcp_src;
    arg->ports.dst = (OVS_FORCE uint16_t) v->tcp_dst;
    arg->ports.src_mask = (OVS_FORCE uint16_t) m->tcp_src;
    arg->ports.dst_mask = (OVS_FORCE uint16_t) m->tcp_dst;
    p->rewritten = true;
}

static void
set_icmp(struct dpif_xdp_program *p, const struct nlattr *key, bool masked)
{
    const struct ovs_key_icmp *v = nl_attr_get(key);
    union dp_op_arg *arg;

    if (masked) {
        p->reason = DPIF_XDP_COMPILE_SET_FIELD;
        return;
    }
    arg = dpif_xdp_op_add(p, DP_OP_SET_ICMP);
    arg->icmp.type = v->icmp_type;
    arg->icmp.code = v->icmp_code;
    p->rewritten = true;
}

/* In the order of the packet. */
static void
arp_to_wire(const struct ovs_key_arp *arp, uint8_t wire[22])
{
    memcpy(wire, &arp->arp_op, 2);
    memcpy(wire + 2, &arp->arp_sha, ETH_ADDR_LEN);
    memcpy(wire + 8, &arp->arp_sip, 4);
    memcpy(wire + 12, &arp->arp_tha, ETH_ADDR_LEN);
    memcpy(wire + 18, &arp->arp_tip, 4);
}

static void
set_arp(struct dpif_xdp_program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_arp);
    union dp_op_arg *arg = dpif_xdp_op_add(p, DP_OP_SET_ARP);

    arp_to_wire(v, arg->arp.value);
    arp_to_wire(m, arg->arp.mask);
}

static void
set_nd(struct dpif_xdp_program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_nd);
    struct dp_blob *arg = dpif_xdp_op_add_blobs(p, DP_OP_SET_ND, 1);

    if (p->option_changed) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
    }
    memcpy(arg->nd.target, &v->nd_target, sizeof arg->nd.target);
    memcpy(arg->nd.target_mask, &m->nd_target, sizeof arg->nd.target_mask);
    memcpy(arg->nd.sll, &v->nd_sll, ETH_ADDR_LEN);
    memcpy(arg->nd.tll, &v->nd_tll, ETH_ADDR_LEN);
    memcpy(arg->nd.sll_mask, &m->nd_sll, ETH_ADDR_LEN);
    memcpy(arg->nd.tll_mask, &m->nd_tll, ETH_ADDR_LEN);
}

/* Any bit of the mask sets the whole field, as in Open vSwitch. */
static void
set_nd_extensions(struct dpif_xdp_program *p, const struct nlattr *key,
                  bool masked)
{
    VALUE_AND_MASK(struct ovs_key_nd_extensions);
    union dp_op_arg *arg = dpif_xdp_op_add(p, DP_OP_SET_ND_EXT);

    arg->nd_ext.reserved = (OVS_FORCE uint32_t) v->nd_reserved;
    arg->nd_ext.type = v->nd_options_type;
    arg->nd_ext.set_reserved = m->nd_reserved != 0;
    arg->nd_ext.set_type = m->nd_options_type != 0;
    p->option_changed = true;
}

static void
set_mpls(struct dpif_xdp_program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(ovs_be32);
    union dp_op_arg *arg = dpif_xdp_op_add(p, DP_OP_SET_MPLS);

    arg->mpls.lse = (OVS_FORCE uint32_t) *v;
    arg->mpls.mask = (OVS_FORCE uint32_t) *m;
    if (p->label_popped) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
    } else if (p->labels_changed) {
        p->last->needs = 0;
    }
}

static void
set_u32(struct dpif_xdp_program *p, const struct nlattr *key, bool masked,
        enum dp_op_code code)
{
    VALUE_AND_MASK(uint32_t);
    union dp_op_arg *arg = dpif_xdp_op_add(p, code);

    arg->meta.value = *v;
    arg->meta.mask = *m;
}
