/* SPDX-License-Identifier: Apache-2.0 */
/* Datapath actions -> terminal action ("fate") and operations of dp/table.h. */
#include <config.h>

#include "ovs/fastpath/compile_private.h"

#include <netinet/in.h>
#include <string.h>

#include "csum.h"
#include "netdev-native-tnl.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "odp-util.h"
#include "packets.h"

/* A program under construction. */
struct program {
    struct dpif_xdp_compiled *out;
    struct dp_op *last;         /* Appended last; 'nowhere' after failure. */
    struct dp_op nowhere;
    const struct dp_capability *caps;
    enum dpif_xdp_compile_reason reason;    /* First obstacle. */
    bool left;                  /* The terminal action is known. */
    bool outputs;               /* To port 'output', where the packet goes at
                                 * last or, if more follows, a copy. */
    uint32_t output;
    bool trunc;                 /* The packet is cut at output. */
    bool rewritten;             /* Headers differ from the key. */
    bool option_changed;        /* The first ND option may be any by now. */
    int tags_pushed;
    bool tunnelled;             /* A tunnel header was pushed. */
    bool cloned;                /* What follows is about the packet as it was. */
    bool labels_changed;        /* Labels were pushed or popped. */
    bool label_popped;
};

static void output_copy(struct program *);
static void output_to_group(struct program *);
static void leave(struct program *, enum dp_fate, uint32_t arg);
static void compile_list(struct program *, const struct nlattr *actions,
                         size_t actions_len);
static void compile_action(struct program *, const struct nlattr *);
static void compile_set(struct program *, const struct nlattr *key,
                        bool masked);

enum dpif_xdp_compile_reason
dpif_xdp_compile(const struct flow *flow, const struct flow_wildcards *wc,
                 struct dpif_xdp_compiled_mask *last,
                 const struct nlattr *actions, size_t actions_len,
                 const struct dp_capability *caps,
                 struct dpif_xdp_compiled *ret, bool *ret_matches)
{
    enum dpif_xdp_compile_reason reason;

    reason = dpif_xdp_compile_match(flow, wc, last, caps, &ret->key,
                                    &ret->mask);
    *ret_matches = reason == DPIF_XDP_COMPILE_OK;
    if (reason) {
        return reason;
    }
    return dpif_xdp_compile_actions(actions, actions_len, caps, ret);
}

enum dpif_xdp_compile_reason
dpif_xdp_compile_actions(const struct nlattr *actions, size_t actions_len,
                         const struct dp_capability *caps,
                         struct dpif_xdp_compiled *out)
{
    struct program p = { .out = out, .caps = caps };

    out->fate = DP_FATE_DROP;
    out->arg = 0;
    out->n_ops = 0;
    out->n_blobs = 0;
    out->n_outputs = 0;
    compile_list(&p, actions, actions_len);
    if (p.outputs && out->n_outputs) {
        output_to_group(&p);
        leave(&p, DP_FATE_GROUP, 0);
    } else if (p.outputs) {
        leave(&p, DP_FATE_OUTPUT, p.output);
    }
    if (p.reason) {
        out->fate = DP_FATE_ENGINE;
        out->n_ops = 0;
    }
    return p.reason;
}

static void
compile_list(struct program *p, const struct nlattr *actions,
             size_t actions_len)
{
    const struct nlattr *a;
    size_t left;

    NL_ATTR_FOR_EACH (a, left, actions, actions_len) {
        if (p->left || p->cloned) {
            p->reason = DPIF_XDP_COMPILE_ORDER;
        } else if (p->outputs) {
            output_copy(p);
        }
        if (p->reason) {
            break;
        }
        compile_action(p, a);
        if (p->out->n_outputs && !p->outputs) {
            p->reason = DPIF_XDP_COMPILE_ORDER;
        }
    }
}

const char *
dpif_xdp_compile_reason_to_string(enum dpif_xdp_compile_reason reason)
{
    static const char *const texts[] = {
#define X(NAME, TEXT, CHANGE) [DPIF_XDP_COMPILE_##NAME] = TEXT,
        DPIF_XDP_COMPILE_REASONS(X)
#undef X
    };

    return texts[reason];
}

static const uint32_t op_needs[] = {
#define X(NAME, NEEDS, TEXT) [DP_OP_##NAME] = NEEDS,
    DP_OPS(X)
#undef X
};

/* What a packet may go through behind a tunnel header that was pushed. */
static bool
suits_tunnel(enum dp_op_code code)
{
    return (code == DP_OP_SET_ETH || code == DP_OP_PUSH_VLAN
            || code == DP_OP_SET_MARK || code == DP_OP_SET_PRIORITY
            || code == DP_OP_METER || code == DP_OP_OUTPUT);
}

/* Appends an operation and returns its arguments, to be filled; where they
 * go to nowhere, it has noted why. */
static union dp_op_arg *
append(struct program *p, enum dp_op_code code)
{
    p->last = &p->nowhere;
    if (!(p->caps->ops & 1ULL << code)) {
        p->reason = DPIF_XDP_COMPILE_PROGRAM;
    } else if (p->tunnelled && !suits_tunnel(code)) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
    } else if (p->out->n_ops == DP_MAX_OPS) {
        p->reason = DPIF_XDP_COMPILE_TOO_LONG;
    } else {
        p->last = &p->out->ops[p->out->n_ops++];
    }
    memset(p->last, 0, sizeof *p->last);
    p->last->code = code;
    p->last->needs = op_needs[code];
    return &p->last->u;
}

/* Appends an operation whose argument lies in 'n' blobs, and returns those. */
static struct dp_blob *
append_with_blobs(struct program *p, enum dp_op_code code, uint32_t n)
{
    struct dpif_xdp_compiled *out = p->out;
    union dp_op_arg *arg = append(p, code);
    struct dp_blob *blobs = &out->blobs[out->n_blobs];

    if (out->n_blobs + n > DP_MAX_BLOBS) {
        p->reason = DPIF_XDP_COMPILE_TOO_LONG;
        blobs = out->blobs;
        n = 0;
    }
    memset(blobs, 0, n * sizeof *blobs);
    p->last->n_blobs = n;
    arg->blob = out->n_blobs;
    out->n_blobs += n;
    return blobs;
}

static void
leave(struct program *p, enum dp_fate fate, uint32_t arg)
{
    p->out->fate = fate;
    p->out->arg = arg;
    p->left = true;
}

/* Sends a copy to the port that was thought to be the packet's last. */
static void
output_copy(struct program *p)
{
    union dp_op_arg *arg;

    if (p->caps->ops & DP_CAPABILITY_GROUPS) {
        output_to_group(p);
        return;
    }
    p->outputs = false;
    if (!(p->caps->ops & DP_CAPABILITY_COPIES)) {
        p->reason = DPIF_XDP_COMPILE_ORDER;
        return;
    }
    arg = (p->last && p->last->code == DP_OP_OUTPUT
           && p->last->u.output.n < DP_MAX_COPIES
           ? &p->last->u : append(p, DP_OP_OUTPUT));
    arg->output.port[arg->output.n++] = p->output;
}

/* Adds the port to those that get the frame as it is at last, each once. */
static void
output_to_group(struct program *p)
{
    struct dpif_xdp_compiled *out = p->out;

    p->outputs = false;
    for (uint32_t i = 0; i < out->n_outputs; i++) {
        if (out->outputs[i] == p->output) {
            p->reason = DPIF_XDP_COMPILE_ORDER;
        }
    }
    if (p->trunc) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
    } else if (out->n_outputs == DP_MAX_GROUP) {
        p->reason = DPIF_XDP_COMPILE_TOO_LONG;
    }
    if (!p->reason) {
        out->outputs[out->n_outputs++] = p->output;
    }
}

static void
compile_push_mpls(struct program *p, const struct ovs_action_push_mpls *mpls)
{
    union dp_op_arg *arg;

    if (!eth_type_mpls(mpls->mpls_ethertype) || p->label_popped) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    arg = append(p, DP_OP_PUSH_MPLS);
    arg->mpls.lse = (OVS_FORCE uint32_t) mpls->mpls_lse;
    arg->mpls.eth_type.raw = (OVS_FORCE uint16_t) mpls->mpls_ethertype;
    p->last->growth = DP_MPLS_LEN;
    p->labels_changed = true;
    p->rewritten = true;
}

/* A label that the frame brought is known to be there: one, no more, and not
 * below labels that were pushed.  Nor may cutting leave less than an Ethernet
 * header. */
static void
compile_pop_mpls(struct program *p, ovs_be16 eth_type)
{
    if (p->labels_changed || p->trunc) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    append(p, DP_OP_POP_MPLS)->mpls.eth_type.raw
        = (OVS_FORCE uint16_t) eth_type;
    p->rewritten = true;
    p->labels_changed = true;
    p->label_popped = true;
}

static void
compile_hash(struct program *p, const struct ovs_action_hash *hash)
{
    union dp_op_arg *arg;

    /* The key still has the old fields. */
    if (p->rewritten || hash->hash_alg > OVS_HASH_ALG_SYM_L4) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
        return;
    }
    arg = append(p, DP_OP_HASH);
    arg->hash.alg = hash->hash_alg;
    arg->hash.basis = hash->hash_basis;
}

/* A tunnel's header in the form of tnl_push().  What of it changes from packet
 * to packet programs know for those that they have; Open vSwitch numbers GRE
 * packets of all flows in one row. */
static void
compile_tunnel_push(struct program *p, const struct ovs_action_push_tnl *tnl)
{
    const uint8_t *header = (const uint8_t *) tnl->header;
    const struct eth_header *eth = (const struct eth_header *) header;
    bool ip6 = eth->eth_type == htons(ETH_TYPE_IPV6);
    const uint8_t *l4 = header + ETH_HEADER_LEN + (ip6 ? IPV6_HEADER_LEN
                                                   : IP_HEADER_LEN);
    const struct udp_header *udp = (const struct udp_header *) l4;
    const struct gre_base_hdr *gre = (const struct gre_base_hdr *) l4;
    uint32_t len = tnl->header_len;
    union dp_op_arg *arg;
    struct dp_blob *blobs;
    bool is_udp = true;
    bool csum;

    switch (tnl->tnl_type) {
    case OVS_VPORT_TYPE_VXLAN:
    case OVS_VPORT_TYPE_GENEVE:
        csum = udp->udp_csum != 0;
        break;
    case OVS_VPORT_TYPE_GRE:
    case OVS_VPORT_TYPE_IP6GRE:
        is_udp = false;
        csum = (gre->flags & htons(GRE_CSUM)) != 0;
        if (gre->flags & htons(GRE_SEQ)) {
            p->reason = DPIF_XDP_COMPILE_TUNNEL;
            return;
        }
        break;
    default:
        p->reason = DPIF_XDP_COMPILE_TUNNEL;
        return;
    }
    if (p->trunc || p->tunnelled || len > DP_MAX_TUNNEL_LEN
        || len < DP_MIN_TUNNEL_LEN || len % 2) {
        p->reason = DPIF_XDP_COMPILE_TUNNEL;
        return;
    }

    blobs = append_with_blobs(p, csum ? DP_OP_TNL_PUSH_CSUM : DP_OP_TNL_PUSH,
                              DIV_ROUND_UP(len, sizeof *blobs));
    arg = &p->last->u;
    if (p->reason) {
        return;
    }
    memcpy(blobs, header, len);
    p->last->growth = len;
    arg->tunnel_push.len = len;
    arg->tunnel_push.ip6 = ip6;
    arg->tunnel_push.udp = is_udp;
    arg->tunnel_push.first_port = tnl_udp_port_min;
    arg->tunnel_push.n_ports = tnl_udp_port_max - tnl_udp_port_min;
    memcpy(&arg->tunnel_push.tail, header + len - 8, 8);
    arg->tunnel_push.sum = csum_continue(0, header + ETH_HEADER_LEN,
                                         len - ETH_HEADER_LEN);
    p->tunnelled = true;
    p->rewritten = true;
}

static void
compile_action(struct program *p, const struct nlattr *a)
{
    switch ((enum ovs_action_attr) nl_attr_type(a)) {
    case OVS_ACTION_ATTR_OUTPUT:
        p->outputs = true;
        p->output = nl_attr_get_u32(a);
        break;

    case OVS_ACTION_ATTR_DROP:
        /* The reason, told from flows without actions: fastpath/drops.c. */
        leave(p, DP_FATE_DROP, nl_attr_get_u32(a) + 1);
        break;

    case OVS_ACTION_ATTR_RECIRC:
        if (p->trunc || p->tunnelled) {
            p->reason = DPIF_XDP_COMPILE_ACTION;
            break;
        }
        leave(p, DP_FATE_RECIRC, nl_attr_get_u32(a));
        break;

    case OVS_ACTION_ATTR_SET:
        compile_set(p, nl_attr_get(a), false);
        break;

    case OVS_ACTION_ATTR_SET_MASKED:
        compile_set(p, nl_attr_get(a), true);
        break;

    case OVS_ACTION_ATTR_PUSH_VLAN: {
        const struct ovs_action_push_vlan *vlan = nl_attr_get(a);
        union dp_op_arg *arg = append(p, DP_OP_PUSH_VLAN);

        arg->vlan.tpid.raw = (OVS_FORCE uint16_t) vlan->vlan_tpid;
        arg->vlan.tci.raw = (OVS_FORCE uint16_t) vlan->vlan_tci;
        p->last->growth = DP_VLAN_LEN;
        p->rewritten = true;
        if (++p->tags_pushed > DP_MAX_TAGS_PUSHED) {
            p->reason = DPIF_XDP_COMPILE_TOO_LONG;
        }
        break;
    }

    case OVS_ACTION_ATTR_POP_VLAN:
        if (p->trunc) {
            p->reason = DPIF_XDP_COMPILE_ACTION;
            break;
        }
        append(p, DP_OP_POP_VLAN);
        p->rewritten = true;
        break;

    case OVS_ACTION_ATTR_PUSH_MPLS:
        compile_push_mpls(p, nl_attr_get(a));
        break;

    case OVS_ACTION_ATTR_POP_MPLS:
        compile_pop_mpls(p, nl_attr_get_be16(a));
        break;

    case OVS_ACTION_ATTR_TRUNC: {
        const struct ovs_action_trunc *trunc = nl_attr_get(a);

        append(p, DP_OP_TRUNC)->max_len = MAX(trunc->max_len, ETH_HEADER_LEN);
        p->trunc = true;
        break;
    }

    case OVS_ACTION_ATTR_HASH:
        compile_hash(p, nl_attr_get(a));
        break;

    case OVS_ACTION_ATTR_CT_CLEAR:
        append(p, DP_OP_CT_CLEAR);
        break;

    case OVS_ACTION_ATTR_METER:
        append(p, DP_OP_METER)->meter = nl_attr_get_u32(a);
        break;

    case OVS_ACTION_ATTR_CLONE:
        compile_list(p, nl_attr_get(a), nl_attr_get_size(a));
        p->cloned = true;
        break;

    case OVS_ACTION_ATTR_TUNNEL_PUSH:
        compile_tunnel_push(p, nl_attr_get(a));
        break;

    case OVS_ACTION_ATTR_UNSPEC:
    case OVS_ACTION_ATTR_USERSPACE:
    case OVS_ACTION_ATTR_SAMPLE:
    case OVS_ACTION_ATTR_CT:
    case OVS_ACTION_ATTR_PUSH_ETH:
    case OVS_ACTION_ATTR_POP_ETH:
    case OVS_ACTION_ATTR_PUSH_NSH:
    case OVS_ACTION_ATTR_POP_NSH:
    case OVS_ACTION_ATTR_CHECK_PKT_LEN:
    case OVS_ACTION_ATTR_ADD_MPLS:
    case OVS_ACTION_ATTR_LB_OUTPUT:
    case OVS_ACTION_ATTR_TUNNEL_POP:
    case __OVS_ACTION_ATTR_MAX:
    default:
        p->reason = DPIF_XDP_COMPILE_ACTION;
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
set_ethernet(struct program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_ethernet);
    union dp_op_arg *arg = append(p, DP_OP_SET_ETH);
    uint8_t *value = (uint8_t *) arg->eth.value;
    uint8_t *mask = (uint8_t *) arg->eth.mask;

    memcpy(value, &v->eth_dst, ETH_ADDR_LEN);
    memcpy(value + ETH_ADDR_LEN, &v->eth_src, ETH_ADDR_LEN);
    memcpy(mask, &m->eth_dst, ETH_ADDR_LEN);
    memcpy(mask + ETH_ADDR_LEN, &m->eth_src, ETH_ADDR_LEN);
}

static void
set_ipv4(struct program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_ipv4);
    union dp_op_arg *arg = append(p, DP_OP_SET_IP4);

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
set_ipv6(struct program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_ipv6);
    ovs_be32 label_mask = m->ipv6_label & htonl(IPV6_LABEL_MASK);
    uint32_t n_before = p->out->n_ops;
    union dp_op_arg *arg;

    if (!is_all_zeros(&m->ipv6_src, sizeof m->ipv6_src)) {
        arg = append(p, DP_OP_SET_IP6_SRC);
        memcpy(arg->ip6_addr.value, &v->ipv6_src, sizeof v->ipv6_src);
        memcpy(arg->ip6_addr.mask, &m->ipv6_src, sizeof m->ipv6_src);
    }
    if (!is_all_zeros(&m->ipv6_dst, sizeof m->ipv6_dst)) {
        arg = append(p, DP_OP_SET_IP6_DST);
        memcpy(arg->ip6_addr.value, &v->ipv6_dst, sizeof v->ipv6_dst);
        memcpy(arg->ip6_addr.mask, &m->ipv6_dst, sizeof m->ipv6_dst);
    }
    if (label_mask || m->ipv6_tclass || m->ipv6_hlimit
        || p->out->n_ops == n_before) {
        arg = append(p, DP_OP_SET_IP6);
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
set_ports(struct program *p, const struct nlattr *key, bool masked,
          enum dp_op_code code)
{
    VALUE_AND_MASK(struct ovs_key_tcp);
    union dp_op_arg *arg = append(p, code);

    arg->ports.src = (OVS_FORCE uint16_t) v->tcp_src;
    arg->ports.dst = (OVS_FORCE uint16_t) v->tcp_dst;
    arg->ports.src_mask = (OVS_FORCE uint16_t) m->tcp_src;
    arg->ports.dst_mask = (OVS_FORCE uint16_t) m->tcp_dst;
    p->rewritten = true;
}

static void
set_icmp(struct program *p, const struct nlattr *key, bool masked)
{
    const struct ovs_key_icmp *v = nl_attr_get(key);
    union dp_op_arg *arg;

    if (masked) {
        p->reason = DPIF_XDP_COMPILE_SET_FIELD;
        return;
    }
    arg = append(p, DP_OP_SET_ICMP);
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
set_arp(struct program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_arp);
    union dp_op_arg *arg = append(p, DP_OP_SET_ARP);

    arp_to_wire(v, arg->arp.value);
    arp_to_wire(m, arg->arp.mask);
}

static void
set_nd(struct program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_nd);
    struct dp_blob *arg = append_with_blobs(p, DP_OP_SET_ND, 1);

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
set_nd_extensions(struct program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(struct ovs_key_nd_extensions);
    union dp_op_arg *arg = append(p, DP_OP_SET_ND_EXT);

    arg->nd_ext.reserved = (OVS_FORCE uint32_t) v->nd_reserved;
    arg->nd_ext.type = v->nd_options_type;
    arg->nd_ext.set_reserved = m->nd_reserved != 0;
    arg->nd_ext.set_type = m->nd_options_type != 0;
    p->option_changed = true;
}

static void
set_mpls(struct program *p, const struct nlattr *key, bool masked)
{
    VALUE_AND_MASK(ovs_be32);
    union dp_op_arg *arg = append(p, DP_OP_SET_MPLS);

    arg->mpls.lse = (OVS_FORCE uint32_t) *v;
    arg->mpls.mask = (OVS_FORCE uint32_t) *m;
    if (p->label_popped) {
        p->reason = DPIF_XDP_COMPILE_ACTION;
    } else if (p->labels_changed) {
        p->last->needs = 0;
    }
}

static void
set_u32(struct program *p, const struct nlattr *key, bool masked,
        enum dp_op_code code)
{
    VALUE_AND_MASK(uint32_t);
    union dp_op_arg *arg = append(p, code);

    arg->meta.value = *v;
    arg->meta.mask = *m;
}

static void
compile_set(struct program *p, const struct nlattr *key, bool masked)
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
