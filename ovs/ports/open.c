/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing: the sockets and programs of a port. */
#include <config.h>

#include "ovs/ports/ports.h"

#include <errno.h>

#include "core/kernel/clsact.h"
#include "core/programs/tcx.h"
#include "netdev-linux-private.h"
#include "netdev-provider.h"
#include "ovs/netdev/netdev_internal.h"
#include "ovs/netdev/netdev_xdp.h"
#include "openvswitch/vlog.h"
#include "util.h"
#include "core/xsk/sock.h"
#include "ovs/engine/engine.h"
#include "ovs/fastpath/fastpath.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_open);

static int open_device(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static int open_netdev(struct dpif_xdp_port *);
static void warn_of_filters(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Gives the queues of 'port', which has all else, to engine threads. */
static int
start_receiving(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    char *text = NULL;
    int error = dpif_xdp_threads_add_port(dp, port, &text);

    if (!error) {
        ovs_rwlock_wrlock(&port->tx_rwlock);
        port->open = true;
        ovs_rwlock_unlock(&port->tx_rwlock);
        return 0;
    }
    VLOG_ERR("%s: %s", netdev_get_name(port->dev), text);
    dpif_xdp_port_close(dp, port);
    if (port->is_device) {
        dpif_xdp_netdev_set_status(port->dev, "none", "none", NULL, text);
    }
    free(text);
    return error;
}

int
dpif_xdp_port_open(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    int error = (port->is_device ? open_device(dp, port)
                 : open_netdev(port));

    if (!error) {
        error = start_receiving(dp, port);
    }
    return error;
}

void
dpif_xdp_port_close(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    ovs_rwlock_wrlock(&port->tx_rwlock);
    port->open = false;
    ovs_rwlock_unlock(&port->tx_rwlock);

    if (port->is_device && dp->progs) {
        oxdp_progs_set_output(dp->progs, odp_to_u32(port->port_no), 0);
        dpif_xdp_port_set_tcx_output(dp, port, false);
        dpif_xdp_flow_lock(dp);
        dpif_xdp_fastpath_port_closed(dp, port->port_no);
        dpif_xdp_flow_unlock(dp);
    }
    if (port->is_device && port->device.ifindex) {
        int hook;

        atomic_read(&port->hook, &hook);
        dp->ports.n_xdp_ports -= hook != DPIF_XDP_HOOK_TCX;
        dpif_xdp_netdev_count_stop(port->dev);
        dpif_xdp_netdev_set_promiscuous(port->dev, false);
        oxdp_progs_detach(dp->progs, port->device.ifindex);
    }
    dpif_xdp_sender_close(dp, port);
    dpif_xdp_threads_remove_port(port);
    for (size_t i = 0; i < port->n_rxqs; i++) {
        oxdp_sock_close_later(port->rxqs[i].sock);
        netdev_rxq_close(port->rxqs[i].rxq);
    }
    free(port->rxqs);
    port->rxqs = NULL;
    port->n_rxqs = 0;

    oxdp_offloads_restore(port->offloads);
    port->offloads = NULL;
    memset(&port->device, 0, sizeof port->device);
}

/* Opens 'n' queues for a port without AF_XDP: taps, tunnels, test devices. */
static int
open_netdev(struct dpif_xdp_port *port)
{
    struct netdev *netdev = port->dev;
    size_t n = netdev_n_rxq(netdev);

    port->rxqs = xcalloc(n, sizeof *port->rxqs);
    for (size_t i = 0; i < n; i++) {
        struct dpif_xdp_rxq *rxq = &port->rxqs[i];
        int error = netdev_rxq_open(netdev, &rxq->rxq, i);

        if (error) {
            VLOG_ERR("%s: cannot receive from the device (%s)",
                     netdev_get_name(netdev), ovs_strerror(error));
            while (i-- > 0) {
                netdev_rxq_close(port->rxqs[i].rxq);
            }
            free(port->rxqs);
            port->rxqs = NULL;
            return error;
        }
        rxq->port = port;
        rxq->fd = (is_netdev_linux_class(netdev_get_class(netdev))
                   ? netdev_rxq_linux_cast(rxq->rxq)->fd : -1);
    }
    port->n_rxqs = n;
    return 0;
}

/* The BPF programs and the packet memory, made for the first device. */
static int
prepare_kernel_side(struct dpif_xdp_dp *dp, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    if (!dp->packets) {
        int error = dpif_xdp_packets_create(dp->ports.n_frames, &dp->packets);

        if (error == EPERM || error == EACCES) {
            *errorp = xasprintf("AF_XDP is not permitted: run as root, or "
                                "with CAP_NET_RAW");
            return error;
        } else if (error) {
            *errorp = xasprintf("cannot create a UMEM of %"PRIu32" frames "
                                "(%s): lower other_config:xdp-umem-frames or "
                                "raise the limit on locked memory",
                                dp->ports.n_frames, ovs_strerror(error));
            return error;
        }
    }
    if (!dp->progs) {
        const struct oxdp_progs_config config = {
            .max_ports = DPIF_XDP_MAX_PORTS,
            .max_sockets = DPIF_XDP_MAX_SOCKETS,
            .n_flows = dp->ports.n_fast_flows,
            .name = dp->name,
        };
        int error = -oxdp_progs_load(&config, &dp->progs, errorp);

        if (error) {
            return error;
        }
        if (oxdp_progs_unpinned(dp->progs)) {
            VLOG_INFO("%s: programs end with this process: %s", dp->name,
                      oxdp_progs_unpinned(dp->progs));
        }
        if (dp->ports.n_fast_flows) {
            dp->fastpath = dpif_xdp_fastpath_create(dp);
        }
    }
    return 0;
}

/* Opens the sockets of 'port' and attaches the program, in one way. */
static int
try_mode(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
         enum oxdp_mode mode, uint32_t n_queues, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    int fds[DPIF_XDP_MAX_QUEUES];
    int error = dpif_xdp_port_open_sockets(dp, port, mode, n_queues, fds,
                                           errorp);

    if (error) {
        return error;
    }
    error = -(port->open
              ? oxdp_progs_attach_before(dp->progs, port->device.ifindex,
                                         mode != OXDP_MODE_GENERIC,
                                         port->device.local_stack,
                                         fds, n_queues, errorp)
              : oxdp_progs_attach(dp->progs, port->device.ifindex,
                                  mode != OXDP_MODE_GENERIC,
                                  port->device.local_stack,
                                  odp_to_u32(port->port_no), fds, n_queues,
                                  errorp));
    if (error) {
        dpif_xdp_port_close_sockets(port, n_queues);
    } else {
        ovs_rwlock_wrlock(&port->tx_rwlock);
        port->n_rxqs = n_queues;
        ovs_rwlock_unlock(&port->tx_rwlock);
    }
    return error;
}

/* Opens 'port' in the first mode that works of those that it may use. */
static int
open_modes(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
           enum oxdp_mode wanted, enum oxdp_mode *modep, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *name = netdev_get_name(port->dev);
    enum oxdp_mode first, last, mode;
    uint32_t n_queues;
    int error;

    if (port->device.mtu > OXDP_MAX_MTU) {
        *errorp = xasprintf("MTU %"PRIu32" is too large for XDP: set it to at "
                            "most %u", port->device.mtu, OXDP_MAX_MTU);
        return EINVAL;
    }
    port->local_stack = port->device.local_stack;

    n_queues = MIN(port->device.n_rx_queues, DPIF_XDP_MAX_QUEUES);
    port->rxqs = xcalloc(n_queues, sizeof *port->rxqs);
    first = (wanted != OXDP_MODE_BEST_EFFORT ? wanted
             : port->device.zerocopy ? OXDP_MODE_NATIVE_ZEROCOPY
             : OXDP_MODE_NATIVE);
    last = wanted == OXDP_MODE_BEST_EFFORT ? OXDP_MODE_GENERIC : wanted;
    for (mode = first; mode <= last; mode++) {
        free(*errorp);
        *errorp = NULL;
        error = try_mode(dp, port, mode, n_queues, errorp);
        if (error != EOPNOTSUPP && error != EINVAL) {
            break;
        }
    }
    if (!error) {
        port->native = mode != OXDP_MODE_GENERIC;
        oxdp_offloads_off(name, &port->offloads);
        VLOG_INFO("%s: XDP mode %s, %"PRIu32" queue%s", name,
                  oxdp_mode_to_string(mode), n_queues,
                  n_queues == 1 ? "" : "s");
        *modep = mode;
    }
    return error;
}

/* The file of the program that 'port' shall have, NULL for ours.  The caller
 * frees it. */
static char *
wanted_obj(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    char *obj = dpif_xdp_netdev_get_obj(port->dev);

    if (!obj) {
        obj = nullable_xstrdup(dp->ports.obj);
    }
    if (!dpif_xdp_obj_is_file(obj)) {
        free(obj);
        obj = NULL;
    }
    return obj;
}

/* Gives 'port' the program in file 'obj', or ours: at once if it is open. */
static int
use_obj(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port, const char *obj,
        char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    uint32_t port_no = odp_to_u32(port->port_no);
    struct dp_capability before = oxdp_progs_capability(dp->progs, port_no);
    int error = -oxdp_progs_use(dp->progs, port_no, obj, errorp);
    struct dp_capability now = oxdp_progs_capability(dp->progs, port_no);

    if (error) {
        return error;
    }
    if (!nullable_string_is_equal(obj, port->obj)) {
        VLOG_INFO("%s: XDP program of %s", netdev_get_name(port->dev),
                  obj ? obj : "the datapath");
        free(port->obj);
        port->obj = nullable_xstrdup(obj);
    }
    if (memcmp(&before, &now, sizeof now)) {
        dpif_xdp_flow_lock(dp);
        dpif_xdp_fastpath_program_changed(dp, port->port_no);
        dpif_xdp_flow_unlock(dp);
    }
    return 0;
}

void
dpif_xdp_port_forget_obj(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    if (port->obj) {
        use_obj(dp, port, NULL, NULL);
    }
}

int
dpif_xdp_port_open_xdp(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                       enum oxdp_mode wanted, const char **mode_text,
                       char **errorp)
{
    char *obj = wanted_obj(dp, port);
    int error = use_obj(dp, port, obj, errorp);
    enum oxdp_mode mode;

    error = error ? error : open_modes(dp, port, wanted, &mode, errorp);
    if (!error) {
        *mode_text = oxdp_mode_to_string(mode);
    }
    free(obj);
    return error;
}

static int
open_device(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->dev);
    struct dpif_xdp_netdev_config config;
    const char *mode_text = "none";
    enum dpif_xdp_hook hook = DPIF_XDP_HOOK_XDP;
    char *text = NULL;
    bool changed;
    int error;

    dpif_xdp_netdev_get_config(port->dev, &config);
    port->config_seq = config.seq;
    port->obj_seq = config.obj_seq;
    port->change_seq = netdev_get_change_seq(port->dev);
    port->redirects = false;
    port->prepared = false;
    port->local_stack = false;
    port->shaped = config.shaped;

    error = prepare_kernel_side(dp, &text);
    if (error) {
        goto out;
    }
    error = -oxdp_device_get(name, &port->device);
    if (error) {
        text = xasprintf("cannot ask the kernel about %s: %s", name,
                         ovs_strerror(error));
        goto out;
    }
    hook = dpif_xdp_port_choose_hook(dp, port, &config);
    if (hook == DPIF_XDP_HOOK_TCX) {
        dpif_xdp_port_forget_obj(dp, port);
        error = dpif_xdp_port_open_tcx(dp, port, &text);
    } else {
        error = dpif_xdp_port_open_xdp(dp, port, config.mode, &mode_text,
                                       &text);
        if (!error && hook == DPIF_XDP_HOOK_BOTH) {
            error = dpif_xdp_port_continue_at_tcx(dp, port, &text);
        }
    }
    if (!error) {
        if (dp->ports.taken_over) {
            dpif_xdp_netdev_count_start(port->dev, dp->progs,
                                        &port->device);
        }
        dpif_xdp_port_set_hook(dp, port, hook);
        dpif_xdp_port_set_tcx_output(dp, port, true);
        dpif_xdp_port_follow_carrier(dp, port);
        if (hook != DPIF_XDP_HOOK_TCX && !dp->ports.n_xdp_ports++) {
            dpif_xdp_ports_follow_xdp(dp);
        }
    }

out:
    if (error && dp->progs) {
        dpif_xdp_port_forget_obj(dp, port);
    }
    changed = dpif_xdp_netdev_set_status(port->dev,
                                         error ? "none" : mode_text,
                                         dpif_xdp_hook_to_string(hook),
                                         port->obj, text);
    if (error) {
        if (changed) {
            /* A device that went while it was opened is no trouble. */
            VLOG(error == ENODEV ? VLL_INFO : VLL_ERR,
                 "%s: cannot use the device with %s: %s", name,
                 hook == DPIF_XDP_HOOK_TCX ? "tcx" : "XDP",
                 text ? text : ovs_strerror(error));
        }
        free(port->rxqs);
        port->rxqs = NULL;
        memset(&port->device, 0, sizeof port->device);
    } else {
        warn_of_filters(dp, port);
        dpif_xdp_port_follow_guest(dp, port);
    }
    free(text);
    return error;
}

/* Says, once for each device, that a user's filters are in vain now. */
static void
warn_of_filters(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct oxdp_clsact_filter first;

    if (port->warned_ifindex != port->device.ifindex
        && oxdp_tcx_hides_filters(dp->progs, port->device.ifindex, &first)) {
        port->warned_ifindex = port->device.ifindex;
        VLOG_WARN("%s: the device has ingress filters of tc, the first of kind "
                  "%s with priority %"PRIu32", which see no packet any more "
                  "that the switch takes, because it stands before them: do "
                  "in OpenFlow what they do, or do it at the other end of the "
                  "wire (\"tc filter show dev %s ingress\" lists them)",
                  netdev_get_name(port->dev), first.kind, first.priority,
                  netdev_get_name(port->dev));
    }
}

void
dpif_xdp_port_follow_obj(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct dpif_xdp_netdev_config config;
    enum dpif_xdp_hook wanted;
    char *text = NULL;
    char *obj;
    int hook;

    dpif_xdp_netdev_get_config(port->dev, &config);
    port->obj_seq = config.obj_seq;
    atomic_read(&port->hook, &hook);
    wanted = dpif_xdp_port_choose_hook(dp, port, &config);
    if ((int) wanted != hook) {
        port->config_seq = UINT64_MAX;          /* Opens it anew. */
    }
    if ((int) wanted != hook || hook == DPIF_XDP_HOOK_TCX) {
        return;
    }

    obj = wanted_obj(dp, port);
    if (use_obj(dp, port, obj, &text)) {
        VLOG_ERR("%s: the program stays that of %s: %s",
                 netdev_get_name(port->dev),
                 port->obj ? port->obj : "the datapath", text);
    }
    dpif_xdp_netdev_set_obj_status(port->dev, port->obj, text);
    free(obj);
    free(text);
}
