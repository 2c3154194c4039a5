/* SPDX-License-Identifier: Apache-2.0 */
/* Tunnels that go by the routes of the host: their endpoint here is an address
 * of a device that is no port.
 *
 * Open vSwitch pushes and pops headers of tunnels itself where the route to
 * the other endpoint leaves by a port of the datapath.  For all other tunnels
 * a device of the kernel does (core/kernel/tunnel_device.h), so that routes,
 * rules, VRFs, neighbours and netfilter of the host are in force.  The device
 * is made as soon as a tunnel needs it, and stays until the last tunnel of its
 * kind and UDP port goes: a route may come back.
 *
 * Packets of any tunnel that come in fragments need it, too: Open vSwitch pops
 * the headers of none, but gives them to the host, which puts them together.
 *
 * ovs/provider/tunnel_route.c says which way a flow takes. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

#include "connectivity.h"
#include "core/kernel/netlink.h"
#include "core/kernel/tunnel_device.h"
#include "core/programs/limit.h"
#include "core/programs/tcx.h"
#include "dpif-provider.h"
#include "netdev-provider.h"
#include "netdev-vport.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs-router.h"
#include "ovs/engine/engine.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/netdev/netdev_internal.h"
#include "packets.h"
#include "seq.h"
#include "smap.h"
#include "sset.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_host_tunnel);

/* The port of 'dp' by which a packet to 'dst' leaves; NULL: none. */
static const struct dpif_xdp_port *
find_way(const struct dpif_xdp_dp *dp, uint32_t mark,
         const struct in6_addr *dst, const struct in6_addr *src)
{
    struct in6_addr source = *src, gateway;
    char device[IFNAMSIZ];

    return (ovs_router_lookup(mark, dst, device, &source, &gateway)
            ? dpif_xdp_port_find_by_name(dp, device) : NULL);
}

bool
dpif_xdp_route_is_ours(const struct dpif_xdp_dp *dp, uint32_t mark,
                       const struct in6_addr *dst, const struct in6_addr *src)
{
    return find_way(dp, mark, dst, src);
}

bool
dpif_xdp_port_tunnel_kind(const struct dpif_xdp_port *port,
                          enum oxdp_tunnel_kind *kind, uint16_t *udp_port)
{
    static const struct {
        const char *type, *format;
        enum oxdp_tunnel_kind kind;
    } kinds[] = {
        { "vxlan", "vxlan_sys_%"SCNu16, OXDP_TUNNEL_VXLAN },
        { "geneve", "genev_sys_%"SCNu16, OXDP_TUNNEL_GENEVE },
        { "gre", NULL, OXDP_TUNNEL_GRE },
        { "ip6gre", NULL, OXDP_TUNNEL_IP6GRE },
    };

    *udp_port = 0;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (!strcmp(port->type, kinds[i].type)) {
            *kind = kinds[i].kind;
            return (!kinds[i].format
                    || ovs_scan(netdev_get_name(port->netdev),
                                kinds[i].format, udp_port));
        }
    }
    return false;
}

/* Open vSwitch counts netdevs with and without VXLAN-GBP for each UDP port,
 * also this, and refuses either kind beside the other: it would refuse the
 * tunnel itself when the bridge looks at its ports again. */
void
dpif_xdp_port_configure_tunnel(struct dpif_xdp_port *port,
                               const struct netdev *tunnel)
{
    const struct netdev_tunnel_config *config
        = netdev_get_tunnel_config(tunnel);
    struct smap args = SMAP_INITIALIZER(&args);
    char *error_text = NULL;

    if (!config || strcmp(port->type, "vxlan") || tunnel == port->netdev) {
        return;
    }
    smap_add(&args, "remote_ip", "flow");
    smap_add_format(&args, "dst_port", "%"PRIu16, ntohs(config->dst_port));
    if (config->exts & (1 << OVS_VXLAN_EXT_GBP)) {
        smap_add(&args, "exts", "gbp");
    }
    if (netdev_set_config(port->netdev, &args, &error_text)) {
        VLOG_INFO("%s: %s", netdev_get_name(port->netdev), error_text);
    }
    free(error_text);
    smap_destroy(&args);
}

/* Whether 'netdev' is a tunnel of 'port'; what stands for the port itself has
 * no other end. */
static bool
is_of(const struct netdev *netdev, const struct dpif_xdp_port *port)
{
    char buffer[NETDEV_VPORT_NAME_BUFSIZE];

    return (netdev != port->netdev && netdev_get_tunnel_config(netdev)
            && !strcmp(netdev_vport_get_dpif_port(netdev, buffer,
                                                  sizeof buffer),
                       netdev_get_name(port->netdev)));
}

/* Which way packets of a tunnel leave and come. */
enum way {
    BY_PORT = 1 << 0,
    BY_HOST = 1 << 1,                   /* Or may.  Where flows say where they
                                         * go, anything may be. */
    BY_HOST_WITHOUT_GPE = 1 << 2,       /* That, and it is to have VXLAN-GPE,
                                         * which devices of the kernel have
                                         * without Ethernet only. */
    BY_DEVICE = 1 << 3,                 /* A device that is a port: none of
                                         * what comes by it is the host's. */
};

static enum way
way_of(const struct dpif_xdp_dp *dp, const struct netdev_tunnel_config *tunnel)
{
    const struct dpif_xdp_port *port
        = (tunnel->ip_dst_flow ? NULL
           : find_way(dp, tunnel->egress_pkt_mark, &tunnel->ipv6_dst,
                      &tunnel->ipv6_src));

    return (!port ? (tunnel->exts & (1 << OVS_VXLAN_EXT_GPE)
                     ? BY_HOST_WITHOUT_GPE : BY_HOST)
            : port->is_device && !dpif_xdp_internal_is(port->netdev)
            ? BY_DEVICE : BY_PORT);
}

/* Adds the names of those tunnels of 'port' to '*names' that go one of
 * 'ways', an OR of enum way. */
static void
get_tunnels(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
            int ways, struct sset *names)
{
    struct netdev **all;
    size_t n;

    all = netdev_get_vports(&n);
    for (size_t i = 0; i < n; i++) {
        if (is_of(all[i], port)
            && ways & way_of(dp, netdev_get_tunnel_config(all[i]))) {
            sset_add(names, netdev_get_name(all[i]));
        }
        netdev_close(all[i]);
    }
    free(all);
}

void
dpif_xdp_port_take_fragments(struct dpif_xdp_port *port)
{
    bool before;

    atomic_read_relaxed(&port->host_tunnel.fragments, &before);
    if (!before) {
        atomic_store(&port->host_tunnel.fragments, true);
        seq_change(tnl_conf_seq);       /* The device is made. */
    }
}

/* Whether any tunnel of 'port' goes by the routes of the host, or gets packets
 * in fragments. */
static bool
is_wanted(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct sset names = SSET_INITIALIZER(&names);
    bool wanted;

    atomic_read(&port->host_tunnel.fragments, &wanted);
    if (wanted) {
        return true;
    }
    get_tunnels(dp, port, BY_HOST | BY_HOST_WITHOUT_GPE, &names);
    wanted = !sset_is_empty(&names);
    sset_destroy(&names);
    return wanted;
}

/* Adds a sentence about the tunnels that get_tunnels() yields, if any. */
static void
explain(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
        enum way way, struct ds *ds)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct sset names = SSET_INITIALIZER(&names);
    char *list;

    get_tunnels(dp, port, way, &names);
    list = sset_join(&names, ", ", "");
    if (!sset_is_empty(&names)) {
        ds_put_format(ds, "%s%s %s ", ds->length ? "; " : "", list,
                      sset_count(&names) == 1 ? "leaves" : "leave");
        if (way == BY_DEVICE) {
            ds_put_cstr(ds, "by a device that is a port, whose own address "
                        "gets nothing, because all that comes to a port is "
                        "its bridge's: move the address to the bridge's own "
                        "port");
        } else if (way == BY_PORT) {
            ds_put_cstr(ds, "by a port of the switch, as Open vSwitch knows "
                        "the routes (ovs-appctl ovs/route/show)");
            if (dpif_xdp_host_tunnel_is(port)) {
                ds_put_format(ds, ", and gets packets that came in fragments "
                              "through %s", port->host_tunnel.name);
            }
        } else if (dpif_xdp_host_tunnel_is(port)) {
            ds_put_format(ds, "by the routes of the host, through %s, unless "
                          "the route to the address leads to a port of the "
                          "switch%s", port->host_tunnel.name,
                          way == BY_HOST ? "" : ", and has plain VXLAN there: "
                          "options:exts=gpe needs an endpoint on a port of "
                          "the switch");
        } else {
            ds_put_format(ds, "by no port of the switch, and there is no "
                          "device for the routes of the host: %s",
                          port->host_tunnel.side.text
                          ? port->host_tunnel.side.text
                          : "it is about to be made");
        }
    }
    free(list);
    sset_destroy(&names);
}

char *
dpif_xdp_port_explain_tunnels(const struct dpif_xdp_dp *dp,
                              const struct dpif_xdp_port *port)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    if (!dpif_xdp_port_is_tunnel(port)) {
        return NULL;
    }
    explain(dp, port, BY_PORT, &ds);
    explain(dp, port, BY_DEVICE, &ds);
    explain(dp, port, BY_HOST, &ds);
    explain(dp, port, BY_HOST_WITHOUT_GPE, &ds);
    return ds.length ? ds_steal_cstr(&ds) : NULL;
}

/* Lets programs at tcx send to 'port' through device 'ifindex'; with 0 forbids
 * it: the engine sends. */
static void
set_output(struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
           int ifindex)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const struct oxdp_limit limit = {
        .mtu = OXDP_TUNNEL_HOST_MTU,
        .takes_buffers = true,
    };
    uint32_t port_no = odp_to_u32(port->port_no);
    int error;

    oxdp_progs_set_limit(dp->progs, port_no, ifindex ? &limit : NULL);
    error = -oxdp_tcx_set_output(dp->progs, port_no, ifindex);
    if (error) {
        VLOG_ERR("%s: the engine sends what goes into these tunnels, tcx "
                 "cannot (%s)", netdev_get_name(port->netdev),
                 ovs_strerror(error));
    }
    dpif_xdp_flow_lock(dp);
    if (ifindex) {
        dpif_xdp_fastpath_port_opened(dp);
    } else {
        dpif_xdp_fastpath_port_closed(dp, port->port_no);
    }
    dpif_xdp_flow_unlock(dp);
}

/* Makes the device for 'port'.  Programs are attached before it is up: nothing
 * that comes out of it reaches the host. */
static int
make(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
     enum oxdp_tunnel_kind kind, uint16_t udp_port, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_host_tunnel *tunnel = &port->host_tunnel;
    struct oxdp_link link;
    int error;

    error = dpif_xdp_host_tunnels_prepare(dp, errorp);
    error = error ? error : -oxdp_tunnel_host_make(kind, udp_port,
                                                   tunnel->name, errorp);
    if (error) {
        return error;
    }
    error = -oxdp_link_get(tunnel->name, &link);
    error = error ? error : dpif_xdp_port_add_tunnel(dp, port, link.ifindex,
                                                     errorp);
    if (!error) {
        error = -oxdp_tunnel_host_up(tunnel->name, errorp);
        if (error) {
            oxdp_progs_detach(dp->progs, link.ifindex);
        }
    }
    if (error) {
        oxdp_tunnel_host_remove(kind, udp_port);
        return error;
    }
    netdev_open(tunnel->name, "system", &tunnel->dev);
    atomic_store(&tunnel->ifindex, link.ifindex);
    set_output(dp, port, link.ifindex);
    return 0;
}

static void
open_host_tunnel(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_host_tunnel *tunnel = &port->host_tunnel;
    const char *name = netdev_get_name(port->netdev);
    enum oxdp_tunnel_kind kind;
    char *before, *text = NULL;
    uint16_t udp_port;
    int error;

    if (!dpif_xdp_port_tunnel_kind(port, &kind, &udp_port)
        || dpif_xdp_backoff_waits(&tunnel->side, &error, &text)) {
        free(text);
        return;
    }
    dpif_xdp_port_stop_merging(port);   /* Its device has the UDP port. */
    error = make(dp, port, kind, udp_port, &text);
    before = nullable_xstrdup(tunnel->side.text);
    dpif_xdp_backoff_note(&tunnel->side, error,
                          text ? text : ovs_strerror(error));
    if (!error) {
        VLOG_INFO("%s: tunnels that leave by no port go through %s, by the "
                  "routes of the host, and so do packets that come in "
                  "fragments", name, tunnel->name);
        seq_change(tnl_conf_seq);       /* Flows are translated anew. */
    } else if (!nullable_string_is_equal(before, tunnel->side.text)) {
        /* Without a device of that kind it is as with stock's userspace
         * datapath, and a route by a port may still come. */
        VLOG(error == EOPNOTSUPP ? VLL_INFO : VLL_WARN,
             "%s: tunnels that leave by no port do not work: %s", name,
             tunnel->side.text);
    }
    free(before);
    free(text);
}

void
dpif_xdp_host_tunnel_close(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct dpif_xdp_host_tunnel *tunnel = &port->host_tunnel;
    enum oxdp_tunnel_kind kind;
    uint16_t udp_port;
    int ifindex;

    atomic_read(&tunnel->ifindex, &ifindex);
    if (ifindex && dpif_xdp_port_tunnel_kind(port, &kind, &udp_port)) {
        atomic_store(&tunnel->ifindex, 0);
        set_output(dp, port, 0);
        oxdp_progs_detach(dp->progs, ifindex);
        oxdp_tunnel_host_remove(kind, udp_port);
        netdev_close(tunnel->dev);
        tunnel->dev = NULL;
    }
    dpif_xdp_backoff_note(&tunnel->side, 0, NULL);
}

/* Whether the device of 'port', if it has one, is as it must be. */
static bool
is_whole(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_host_tunnel *tunnel = &port->host_tunnel;
    struct oxdp_link link;
    int ifindex;

    atomic_read(&tunnel->ifindex, &ifindex);
    return (!ifindex
            || (!oxdp_link_get(tunnel->name, &link) && link.ifindex == ifindex
                && link.flags & IFF_UP
                && oxdp_tcx_is_attached(dp->progs, ifindex)));
}

/* Looks after the device of 'port', one of tunnels. */
static void
look_at(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    if (!is_whole(dp, port)) {
        VLOG_WARN("%s: %s, through which tunnels go by the routes of the "
                  "host, was removed or set down: making it anew",
                  netdev_get_name(port->netdev), port->host_tunnel.name);
        dpif_xdp_host_tunnel_close(dp, port);
        seq_change(tnl_conf_seq);
    }
    if (!dpif_xdp_host_tunnel_is(port) && is_wanted(dp, port)) {
        open_host_tunnel(dp, port);
    }
}

/* Whether 'port' is to be looked at again though nothing has changed. */
static bool
is_due(const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    return (port->host_tunnel.side.error
            && time_msec() >= port->host_tunnel.side.until);
}

void
dpif_xdp_host_tunnels_run(struct dpif_xdp_dp *dp)
{
    const uint64_t seqs[3] = {
        seq_read(tnl_conf_seq),
        seq_read(connectivity_seq_get()),
        seq_read(dpif_xdp_ports_seq(dp)),
    };
    bool changed = memcmp(seqs, dp->ports.tunnel_seqs, sizeof seqs);
    struct dpif_xdp_port *port;

    if (!dp->progs) {
        return;                         /* No port has programs. */
    }
    memcpy(dp->ports.tunnel_seqs, seqs, sizeof seqs);
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        if (dpif_xdp_port_is_tunnel(port) && (changed || is_due(port))) {
            look_at(dp, port);
        }
    }
}

void
dpif_xdp_host_tunnels_wait(const struct dpif_xdp_dp *dp)
{
    const struct dpif_xdp_port *port;

    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        if (port->host_tunnel.side.error) {
            poll_timer_wait_until(port->host_tunnel.side.until);
        }
    }
}
