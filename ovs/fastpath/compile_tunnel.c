/* SPDX-License-Identifier: Apache-2.0 */
/* Tunnel headers of Open vSwitch -> operations of dp/table.h. */
#include <config.h>

#include "ovs/fastpath/compile_private.h"

#include <netinet/in.h>
#include <string.h>

#include "csum.h"
#include "dp/tunnel_out.h"
#include "netdev-native-tnl.h"
#include "odp-netlink.h"
#include "odp-util.h"
#include "packets.h"

/* The checksum of a header whose total length is still 0.  Since Open vSwitch
 * 3.2 the sender of the packet computes it. */
static void
fill_ip_checksum(uint8_t *ip)
{
    ovs_be16 checksum = 0;

    memcpy(ip + offsetof(struct ip_header, ip_csum), &checksum, 2);
    checksum = csum(ip, IP_HEADER_LEN);
    memcpy(ip + offsetof(struct ip_header, ip_csum), &checksum, 2);
}

/* Whether the header that 'b' pushes can take the place of that of 'a'. */
static bool
same_form(const struct dp_op *a, const struct dp_op *b)
{
    return (a->code == b->code
            && a->u.tunnel_push.len == b->u.tunnel_push.len
            && a->u.tunnel_push.ip6 == b->u.tunnel_push.ip6
            && a->u.tunnel_push.udp == b->u.tunnel_push.udp);
}

void
dpif_xdp_compile_tunnel_push(struct dpif_xdp_program *p,
                             const struct ovs_action_push_tnl *tnl)
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
    bool numbered = false;
    bool has_csum;

    switch (tnl->tnl_type) {
    case OVS_VPORT_TYPE_VXLAN:
    case OVS_VPORT_TYPE_GENEVE:
        has_csum = udp->udp_csum != 0;
        break;
    case OVS_VPORT_TYPE_GRE:
    case OVS_VPORT_TYPE_IP6GRE:
        is_udp = false;
        has_csum = (gre->flags & htons(GRE_CSUM)) != 0;
        numbered = (gre->flags & htons(GRE_SEQ)) != 0;
        break;
    default:
        p->reason = DPIF_XDP_COMPILE_TUNNEL;
        return;
    }
    if (p->overwrites && !(p->caps->ops & DP_CAPABILITY_COPIES)) {
        p->reason = DPIF_XDP_COMPILE_ORDER;
        return;
    }
    if (p->trunc || p->tunnelled || len > DP_MAX_TUNNEL_LEN
        || len < DP_MIN_TUNNEL_LEN || len % 2) {
        p->reason = DPIF_XDP_COMPILE_TUNNEL;
        return;
    }

    blobs = dpif_xdp_op_add_blobs(
        p, has_csum ? DP_OP_TNL_PUSH_CSUM : DP_OP_TNL_PUSH,
        DIV_ROUND_UP(len, sizeof *blobs));
    arg = &p->last->u;
    if (p->reason) {
        return;
    }
    memcpy(blobs, header, len);
    if (!ip6) {
        fill_ip_checksum((uint8_t *) blobs + ETH_HEADER_LEN);
    }
    p->last->growth = len;
    arg->tunnel_push.len = len;
    arg->tunnel_push.ip6 = ip6;
    arg->tunnel_push.udp = is_udp;
    arg->tunnel_push.numbered = numbered;
    arg->tunnel_push.first_port = tnl_udp_port_min;
    arg->tunnel_push.n_ports = tnl_udp_port_max - tnl_udp_port_min;
    memcpy(&arg->tunnel_push.tail, header + len - 8, 8);
    arg->tunnel_push.sum = csum_continue(
        0, (const uint8_t *) blobs + ETH_HEADER_LEN, len - ETH_HEADER_LEN);
    if (!p->overwrites) {
        p->pushed = p->out->n_ops - 1;
    } else if (same_form(&p->out->ops[p->pushed], p->last)) {
        arg->tunnel_push.again = true;
        p->last->growth = 0;
    } else {
        p->reason = DPIF_XDP_COMPILE_ORDER;
    }
    p->tunnelled = true;
    p->rewritten = true;
}

/* Only tunnels in UDP have a port.  Those always have a key and, in IPv6, a
 * checksum, as headers that the datapath pushes. */
bool
dpif_xdp_compile_tunnel_out(const struct flow_tnl *tunnel,
                            struct dp_tunnel_out *out)
{
    memset(out, 0, sizeof *out);
    if (tunnel->ip_dst) {
        memcpy(out->dst, &tunnel->ip_dst, sizeof tunnel->ip_dst);
        memcpy(out->src, &tunnel->ip_src, sizeof tunnel->ip_src);
    } else if (ipv6_addr_is_set(&tunnel->ipv6_dst)) {
        memcpy(out->dst, &tunnel->ipv6_dst, sizeof tunnel->ipv6_dst);
        memcpy(out->src, &tunnel->ipv6_src, sizeof tunnel->ipv6_src);
        out->flags = (DP_TUNNEL_IP6
                      | (tunnel->tp_dst ? DP_TUNNEL_CSUM : 0));
    } else {
        return false;
    }
    if (tunnel->flags & FLOW_TNL_F_UDPIF) {
        out->options_len = tunnel->metadata.present.len;
    }
    out->flags |= ((tunnel->flags & FLOW_TNL_F_CSUM ? DP_TUNNEL_CSUM : 0)
                   | (tunnel->flags & FLOW_TNL_F_DONT_FRAGMENT
                      ? DP_TUNNEL_DF : 0)
                   | (tunnel->flags & FLOW_TNL_F_KEY || tunnel->tp_dst
                      ? DP_TUNNEL_HAS_KEY : 0));
    out->id = ntohll(tunnel->tun_id);
    out->tos = tunnel->ip_tos;
    out->ttl = tunnel->ip_ttl;
    out->magic = DP_TUNNEL_OUT_MAGIC;
    return out->options_len <= DP_TUNNEL_MAX_OPTIONS;
}

/* Into a tunnel by the routes of the host. */
void
dpif_xdp_compile_tunnel_set(struct dpif_xdp_program *p,
                            const struct nlattr *key)
{
    struct dp_tunnel_out out;
    struct flow_tnl tunnel;
    struct dp_blob *blobs;

    memset(&tunnel, 0, sizeof tunnel);
    if (odp_tun_key_from_attr(key, &tunnel, NULL) == ODP_FIT_ERROR
        || !dpif_xdp_compile_tunnel_out(&tunnel, &out) || p->trunc
        || out.options_len > sizeof blobs->bytes) {
        p->reason = DPIF_XDP_COMPILE_TUNNEL;
        return;
    }
    blobs = dpif_xdp_op_add_blobs(p, DP_OP_TNL_SET, out.options_len ? 2 : 1);
    if (!p->reason) {
        memcpy(blobs[0].bytes, &out, sizeof out);
        if (out.options_len) {
            memcpy(blobs[1].bytes, tunnel.metadata.opts.u8, out.options_len);
        }
    }
}

/* Which kind of tunnel the port is for is found out later:
 * dpif_xdp_compile_pop(). */
void
dpif_xdp_compile_tunnel_pop(struct dpif_xdp_program *p, uint32_t port)
{
    if (p->trunc || p->tunnelled || p->labels_changed || p->n_ct) {
        p->reason = DPIF_XDP_COMPILE_TUNNEL;
        return;
    }
    dpif_xdp_op_add(p, DP_OP_TNL_POP)->tunnel_pop.port = port;
    dpif_xdp_program_end(p, DP_FATE_RECIRC, 0);
}

struct dp_op *
dpif_xdp_compiled_pop(struct dpif_xdp_compiled *compiled)
{
    uint32_t n = compiled->n_ops;

    return n && compiled->ops[n - 1].code == DP_OP_TNL_POP
           ? &compiled->ops[n - 1] : NULL;
}

bool
dpif_xdp_compile_pop(struct dpif_xdp_compiled *compiled, const char *type)
{
    struct dp_op *op = dpif_xdp_compiled_pop(compiled);

    if (!strcmp(type, "vxlan")) {
        op->u.tunnel_pop.kind = DP_TUNNEL_VXLAN;
    } else if (!strcmp(type, "geneve")) {
        op->code = DP_OP_TNL_POP_GENEVE;
        op->u.tunnel_pop.kind = DP_TUNNEL_GENEVE;
    } else if (!strcmp(type, "gre") || !strcmp(type, "ip6gre")) {
        op->u.tunnel_pop.kind = DP_TUNNEL_GRE;
    } else {
        return false;
    }
    return true;
}
