/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: adding, removing, finding.  ovs/ports/open.c and ovs/ports/follow.c
 * have what concerns the device. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>
#include <limits.h>

#include "dpif.h"
#include "netdev-provider.h"
#include "netdev-vport.h"
#include "ovs/netdev/netdev_internal.h"
#include "ovs/netdev/netdev_xdp.h"
#include "odp-util.h"
#include "openvswitch/vlog.h"
#include "openvswitch/poll-loop.h"
#include "util.h"
#include "ovs/engine/engine.h"
#include "seq.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port);

static odp_port_t choose_port_no(const struct dpif_xdp_dp *,
                                 const char *devname);
static void free_port(struct dpif_xdp_port *);
static void insert_port(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static void remove_port(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

int
dpif_xdp_port_add(struct dpif *dpif, struct netdev *netdev,
                  odp_port_t *port_nop)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    char namebuf[NETDEV_VPORT_NAME_BUFSIZE];
    const char *devname = netdev_vport_get_dpif_port(netdev, namebuf,
                                                     sizeof namebuf);
    int error = 0;

    dpif_xdp_port_lock(dp);
    if (*port_nop == ODPP_NONE) {
        *port_nop = choose_port_no(dp, devname);
        if (*port_nop == ODPP_NONE) {
            error = EFBIG;
        }
    } else if (dpif_xdp_port_lookup(dp, *port_nop)) {
        error = EBUSY;
    }
    if (!error) {
        error = dpif_xdp_port_create(dp, devname, netdev_get_type(netdev),
                                     *port_nop);
    }
    if (!error) {
        dpif_xdp_port_configure_tunnel(dpif_xdp_port_lookup(dp, *port_nop),
                                       netdev);
    }
    dpif_xdp_port_unlock(dp);
    return error;
}

/* Opens the device through which the switch uses 'netdev'. */
static int
open_end(struct netdev *netdev, struct netdev **devp)
{
    if (dpif_xdp_internal_is(netdev)) {
        return dpif_xdp_internal_open_device(netdev, devp);
    }
    *devp = netdev_ref(netdev);
    return 0;
}

/* A device that may be a port, but that nothing serves now, is a port all the
 * same: it is tried again, and for an internal port no pair of devices comes
 * and goes, which would make the bridge look at its ports again and again. */
int
dpif_xdp_port_create(struct dpif_xdp_dp *dp, const char *devname,
                     const char *type, odp_port_t port_no)
{
    struct netdev *netdev, *dev;
    struct dpif_xdp_port *port;
    int error;

    if (dpif_xdp_port_find_by_name(dp, devname)) {
        return EEXIST;
    }
    error = netdev_open(devname, type, &netdev);
    if (error) {
        return error;
    }
    error = open_end(netdev, &dev);
    if (error) {
        netdev_close(netdev);
        return error;
    }

    port = xzalloc(sizeof *port);
    port->port_no = port_no;
    port->netdev = netdev;
    port->dev = dev;
    port->type = xstrdup(type);
    port->retry = LLONG_MAX;
    port->is_device = dpif_xdp_netdev_is(dev);
    port->can_send = netdev_n_txq(dev) > 0;
    ovs_rwlock_init(&port->tx_rwlock);
    dpif_xdp_sender_init(&port->sender);
    atomic_init(&port->hook, DPIF_XDP_HOOK_NONE);
    atomic_init(&port->max_len, UINT32_MAX);
    atomic_init(&port->pops_tunnels, false);
    atomic_init(&port->host_tunnel.ifindex, 0);
    atomic_init(&port->host_tunnel.fragments, false);

    error = dpif_xdp_port_open(dp, port);
    if (error && port->fit && error != ENODEV) {
        dpif_xdp_port_try_later(port);
        insert_port(dp, port);
        return 0;
    }
    if (error) {
        free_port(port);
        return error;
    }

    /* Changing flags makes the bridge look at its ports again, so not before
     * the port has proved to work: else it would be tried for ever. */
    error = (port->is_device ? dpif_xdp_netdev_set_promiscuous(dev, true)
             : netdev_turn_flags_on(dev, NETDEV_PROMISC, &port->sf));
    if (error) {
        VLOG_ERR("%s: cannot set promiscuous mode (%s)", devname,
                 ovs_strerror(error));
        dpif_xdp_port_close(dp, port);
        free_port(port);
        return error;
    }

    insert_port(dp, port);
    dpif_xdp_port_learn_neighbours(port);
    return 0;
}

int
dpif_xdp_port_del(struct dpif *dpif, odp_port_t port_no)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    struct dpif_xdp_port *port;

    if (port_no == ODPP_LOCAL) {
        return EINVAL;
    }
    dpif_xdp_port_lock(dp);
    port = dpif_xdp_port_lookup(dp, port_no);
    if (port) {
        remove_port(dp, port);
    }
    dpif_xdp_port_unlock(dp);

    if (!port) {
        return ENODEV;
    }
    /* The device must be free for other uses when this returns. */
    ovsrcu_synchronize();
    free_port(port);
    return 0;
}

void
dpif_xdp_ports_destroy(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port;

    dpif_xdp_port_lock(dp);
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        remove_port(dp, port);
        ovsrcu_postpone(free_port, port);
    }
    free(dp->ports.obj);
    dp->ports.obj = NULL;
    dpif_xdp_port_unlock(dp);
}

void
dpif_xdp_ports_run(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port;

    dpif_xdp_port_lock(dp);
    dpif_xdp_take_over_run(dp);
    dpif_xdp_kernel_side_run(dp);
    dpif_xdp_track_run(dp);
    dpif_xdp_senders_run(dp);
    dpif_xdp_underlays_look(dp);
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        dpif_xdp_poll_port(dp, port);
        if (port->is_device) {
            dpif_xdp_sender_run(dp, port);
            dpif_xdp_port_follow(dp, port);
        }
    }
    dpif_xdp_host_tunnels_run(dp);
    dpif_xdp_underlays_run(dp);
    dpif_xdp_detour_run(dp);
    dpif_xdp_order_run(dp);
    dpif_xdp_shortcuts_run(dp);
    dpif_xdp_port_unlock(dp);
}

void
dpif_xdp_ports_wait(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port;

    dpif_xdp_port_lock(dp);
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        for (size_t i = 0; i < dpif_xdp_port_n_rxqs(port); i++) {
            const struct dpif_xdp_rxq *rxq = dpif_xdp_port_rxq(port, i);

            if (rxq->fd < 0) {
                netdev_rxq_wait(rxq->rxq);
            }
        }
        if (port->is_device
            && port->change_seq != netdev_get_change_seq(port->dev)) {
            poll_immediate_wake();
        }
        if (port->is_device) {
            poll_timer_wait_until(MIN(port->retry, port->next_look));
            dpif_xdp_port_wait_for_guest(port);
        }
        dpif_xdp_sender_wait(port);
    }
    dpif_xdp_shortcuts_wait(dp);
    dpif_xdp_take_over_wait(dp);
    dpif_xdp_kernel_side_wait(dp);
    dpif_xdp_track_wait(dp);
    dpif_xdp_senders_wait(dp);
    dpif_xdp_host_tunnels_wait(dp);
    dpif_xdp_port_unlock(dp);
}

/* Interface:other_config: nothing in it concerns this datapath. */
int
dpif_xdp_port_set_config(struct dpif *dpif, odp_port_t port_no,
                         const struct smap *cfg OVS_UNUSED)
{
    return (dpif_xdp_port_lookup(dpif_xdp_dp_cast(dpif), port_no)
            ? 0 : ENODEV);
}

static void
answer_query(const struct dpif_xdp_port *port, struct dpif_port *answer)
{
    if (answer) {
        answer->name = xstrdup(netdev_get_name(port->netdev));
        answer->type = xstrdup(port->type);
        answer->port_no = port->port_no;
    }
}

int
dpif_xdp_port_query_by_number(const struct dpif *dpif, odp_port_t port_no,
                              struct dpif_port *answer)
{
    const struct dpif_xdp_port *port
        = dpif_xdp_port_lookup(dpif_xdp_dp_cast(dpif), port_no);

    if (!port) {
        return ENODEV;
    }
    answer_query(port, answer);
    return 0;
}

int
dpif_xdp_port_query_by_name(const struct dpif *dpif, const char *devname,
                            struct dpif_port *answer)
{
    const struct dpif_xdp_port *port
        = dpif_xdp_port_find_by_name(dpif_xdp_dp_cast(dpif), devname);

    if (!port) {
        return ENODEV;
    }
    answer_query(port, answer);
    return 0;
}

struct port_dump {
    struct cmap_position position;
    struct dpif_port port;              /* Given out last. */
};

int
dpif_xdp_port_dump_start(const struct dpif *dpif OVS_UNUSED, void **statep)
{
    *statep = xzalloc(sizeof(struct port_dump));
    return 0;
}

int
dpif_xdp_port_dump_next(const struct dpif *dpif, void *dump_,
                        struct dpif_port *answer)
{
    struct port_dump *dump = dump_;
    const struct dpif_xdp_port *port
        = dpif_xdp_port_next(dpif_xdp_dp_cast(dpif), &dump->position);

    if (!port) {
        return EOF;
    }
    dpif_port_destroy(&dump->port);
    answer_query(port, &dump->port);
    *answer = dump->port;
    return 0;
}

int
dpif_xdp_port_dump_done(const struct dpif *dpif OVS_UNUSED, void *dump_)
{
    struct port_dump *dump = dump_;

    dpif_port_destroy(&dump->port);
    free(dump);
    return 0;
}

int
dpif_xdp_port_poll(const struct dpif *dpif_, char **devnamep OVS_UNUSED)
{
    struct dpif_xdp *dpif = CONTAINER_OF(dpif_, struct dpif_xdp, dpif);
    uint64_t seq = seq_read(dpif_xdp_ports_seq(dpif->dp));

    if (dpif->last_port_seq == seq) {
        return EAGAIN;
    }
    dpif->last_port_seq = seq;
    return ENOBUFS;
}

void
dpif_xdp_port_poll_wait(const struct dpif *dpif_)
{
    struct dpif_xdp *dpif = CONTAINER_OF(dpif_, struct dpif_xdp, dpif);

    seq_wait(dpif_xdp_ports_seq(dpif->dp), dpif->last_port_seq);
}

/* A free port number, or ODPP_NONE. */
static odp_port_t
choose_port_no(const struct dpif_xdp_dp *dp, const char *devname)
{
    /* Under another class (Open vSwitch's unit tests) numbers follow names,
     * as in lib/dpif-netdev.c. */
    if (dp->class->type != dpif_xdp_type) {
        const char *digits = devname + strcspn(devname, "0123456789");
        int start = strncmp(devname, "br", 2) ? 0 : 100;

        if (*digits) {
            uint32_t number = start + strtol(digits, NULL, 10);

            if (number > 0 && number != odp_to_u32(ODPP_NONE)
                && !dpif_xdp_port_lookup(dp, u32_to_odp(number))) {
                return u32_to_odp(number);
            }
        }
    }

    for (uint32_t number = 1; number < DPIF_XDP_MAX_PORTS; number++) {
        if (!dpif_xdp_port_lookup(dp, u32_to_odp(number))) {
            return u32_to_odp(number);
        }
    }
    return ODPP_NONE;
}

static void
free_port(struct dpif_xdp_port *port)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared. */
{
    netdev_restore_flags(port->sf);
    netdev_close(port->dev);
    netdev_close(port->netdev);
    ovs_rwlock_destroy(&port->tx_rwlock);
    dpif_xdp_sender_destroy(&port->sender);
    free(port->type);
    free(port->obj);
    free(port);
}

static void
insert_port(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    if (port->is_device) {
        dpif_xdp_netdev_set_port(port->dev, dpif_xdp_sender_all_drops, port);
    }
    dpif_xdp_port_table_insert(dp, port);
}

/* Takes 'port' out of 'dp'.  Readers may use it until they quiesce. */
static void
remove_port(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    if (port->is_device) {
        dpif_xdp_netdev_set_port(port->dev, NULL, NULL);
    }
    dpif_xdp_port_table_remove(dp, port);
    dpif_xdp_host_tunnel_close(dp, port);
    dpif_xdp_port_stop_merging(port);
    dpif_xdp_port_close(dp, port);
    dpif_xdp_port_forget_obj(dp, port);
}
