/* SPDX-License-Identifier: Apache-2.0 */
/* Which way packets go that are for a tunnel: with a header that the datapath
 * pushes, where the route to its peer leaves by one of its ports; else
 * through the kernel's device for such tunnels, by the routes of the host
 * (ovs/ports/host_tunnel.c).
 *
 * Open vSwitch knows one answer for all tunnels of a bridge, which
 * ofproto/ofproto-dpif-xlate.c asks for behind tnl_port_send(): that fills in
 * where the packet at hand goes.  So the answer that follows is about this
 * packet.  It asks the same again in front of output to a bridge's own port,
 * whether tunnels may end there, always behind commit_odp_actions(). */
#include <config.h>

#include "ovs/provider/provider_private.h"

#include "flow.h"
#include "odp-util.h"
#include "ofproto/ofproto-dpif.h"
#include "ofproto/tunnel.h"
#include "ovs-thread.h"
#include "ovs/datapath/datapath.h"
#include "ovs/ports/ports.h"
#include "ovs/provider/dpif_xdp.h"

/* The tunnel that this thread has just found, and the datapath that it has
 * asked about last. */
struct found {
    const struct dpif *dpif;
    bool valid;
    odp_port_t port_no;
    uint32_t mark;
    struct in6_addr dst, src;
};
DEFINE_STATIC_PER_THREAD_DATA(struct found, found, { .valid = false })

odp_port_t __real_tnl_port_map_lookup(struct flow *, struct flow_wildcards *);
odp_port_t __wrap_tnl_port_map_lookup(struct flow *, struct flow_wildcards *);

odp_port_t __real_tnl_port_send(const struct ofport_dpif *, struct flow *,
                                struct flow_wildcards *);
odp_port_t __wrap_tnl_port_send(const struct ofport_dpif *, struct flow *,
                                struct flow_wildcards *);
bool __real_ovs_native_tunneling_is_on(struct ofproto_dpif *);
bool __wrap_ovs_native_tunneling_is_on(struct ofproto_dpif *);
enum slow_path_reason __real_commit_odp_actions(
    const struct flow *, struct flow *base, struct ofpbuf *odp_actions,
    struct flow_wildcards *, bool use_masked, bool pending_encap,
    bool pending_decap, struct ofpbuf *encap_data);
enum slow_path_reason __wrap_commit_odp_actions(
    const struct flow *, struct flow *base, struct ofpbuf *odp_actions,
    struct flow_wildcards *, bool use_masked, bool pending_encap,
    bool pending_decap, struct ofpbuf *encap_data);
enum odp_key_fitness __real_odp_tun_key_from_attr(const struct nlattr *,
                                                  struct flow_tnl *,
                                                  char **errorp);
enum odp_key_fitness __wrap_odp_tun_key_from_attr(const struct nlattr *,
                                                  struct flow_tnl *,
                                                  char **errorp);

odp_port_t
__wrap_tnl_port_send(const struct ofport_dpif *ofport, struct flow *flow,
                     struct flow_wildcards *wc)
{
    odp_port_t port_no = __real_tnl_port_send(ofport, flow, wc);
    struct found *tunnel = found_get();

    tunnel->valid = port_no != ODPP_NONE;
    if (tunnel->valid) {
        tunnel->port_no = port_no;
        tunnel->mark = flow->pkt_mark;
        tunnel->dst = flow_tnl_dst(&flow->tunnel);
        tunnel->src = flow_tnl_src(&flow->tunnel);
    }
    return port_no;
}

enum slow_path_reason
__wrap_commit_odp_actions(const struct flow *flow, struct flow *base,
                          struct ofpbuf *odp_actions,
                          struct flow_wildcards *wc, bool use_masked,
                          bool pending_encap, bool pending_decap,
                          struct ofpbuf *encap_data)
{
    found_get()->valid = false;
    return __real_commit_odp_actions(flow, base, odp_actions, wc, use_masked,
                                     pending_encap, pending_decap, encap_data);
}

/* Whether 'tunnel', one of 'dpif', goes by the host's routes. */
static bool
goes_by_host(const struct dpif *dpif, const struct found *tunnel)
{
    const struct dpif_xdp_port *port;
    const struct dpif_xdp_dp *dp;

    if (dpif->dpif_class->open != dpif_xdp_class.open) {
        return false;
    }
    dp = dpif_xdp_dp_cast(dpif);
    port = dpif_xdp_port_lookup(dp, tunnel->port_no);
    return (port && dpif_xdp_host_tunnel_is(port)
            && !dpif_xdp_route_is_ours(dp, tunnel->mark, &tunnel->dst,
                                       &tunnel->src));
}

bool
__wrap_ovs_native_tunneling_is_on(struct ofproto_dpif *ofproto)
{
    struct found *tunnel = found_get();
    bool is_on = __real_ovs_native_tunneling_is_on(ofproto);

    tunnel->dpif = ofproto->backer->dpif;
    if (tunnel->valid) {
        tunnel->valid = false;
        is_on = is_on && !goes_by_host(ofproto->backer->dpif, tunnel);
    }
    return is_on;
}

/* Where a packet is for a bridge's own port: whether a tunnel ends there.
 * Open vSwitch knows none for fragments, and gives these to the host, which
 * puts them together: then they are for the kernel's device for such tunnels.
 * The question before was ovs_native_tunneling_is_on(). */
odp_port_t
__wrap_tnl_port_map_lookup(struct flow *flow, struct flow_wildcards *wc)
{
    odp_port_t port_no = __real_tnl_port_map_lookup(flow, wc);
    const struct dpif *dpif = found_get()->dpif;

    if (port_no == ODPP_NONE && flow->nw_frag == FLOW_NW_FRAG_ANY
        && dpif && dpif->dpif_class->open == dpif_xdp_class.open) {
        struct dpif_xdp_port *port;

        flow->nw_frag = 0;
        port = dpif_xdp_port_lookup(dpif_xdp_dp_cast(dpif),
                                    __real_tnl_port_map_lookup(flow, NULL));
        flow->nw_frag = FLOW_NW_FRAG_ANY;
        if (port) {
            dpif_xdp_port_take_fragments(port);
        }
    }
    return port_no;
}

/* lib/odp-execute.c has this fill in a packet's tunnel when the packet is to
 * go into one.  What the attribute does not have is not to be what the packet
 * brought. */
enum odp_key_fitness
__wrap_odp_tun_key_from_attr(const struct nlattr *attr,
                             struct flow_tnl *tunnel, char **errorp)
{
    memset(tunnel, 0, offsetof(struct flow_tnl, metadata.opts));
    return __real_odp_tun_key_from_attr(attr, tunnel, errorp);
}
