/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing: the sockets and programs of a port. */
#include <config.h>

#include "dpif_xdp_port.h"

#include <errno.h>

#include "netdev-linux-private.h"
#include "netdev-provider.h"
#include "netdev_xdp.h"
#include "openvswitch/vlog.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_open);

static int open_device(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
static int open_netdev(struct dpif_xdp_port *);

int
dpif_xdp_port_open(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    int error = (port->is_device ? open_device(dp, port)
                 : open_netdev(port));

    if (!error) {
        dpif_xdp_threads_add_port(dp, port);
        ovs_rwlock_wrlock(&port->tx_rwlock);
        port->open = true;
        ovs_rwlock_unlock(&port->tx_rwlock);
    }
    return error;
}

void
dpif_xdp_port_close(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    ovs_rwlock_wrlock(&port->tx_rwlock);
    port->open = false;
    ovs_rwlock_unlock(&port->tx_rwlock);

    if (port->is_device && port->device.ifindex) {
        oxdp_progs_set_output(dp->progs, odp_to_u32(port->port_no), 0);
        ovs_mutex_lock(&dp->flow_mutex);
        dpif_xdp_fastpath_port_closed(dp, port->port_no);
        ovs_mutex_unlock(&dp->flow_mutex);
        dpif_xdp_netdev_count_stop(port->netdev);
        oxdp_progs_detach(dp->progs, port->device.ifindex);
    }
    dpif_xdp_threads_remove_port(port);
    for (size_t i = 0; i < port->n_rxqs; i++) {
        oxdp_sock_close(port->rxqs[i].sock);
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
    struct netdev *netdev = port->netdev;
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
{
    if (!dp->packets) {
        int error = dpif_xdp_packets_create(dp->n_frames, &dp->packets);

        if (error == EPERM || error == EACCES) {
            *errorp = xasprintf("AF_XDP is not permitted: run as root, or "
                                "with CAP_NET_RAW");
            return error;
        } else if (error) {
            *errorp = xasprintf("cannot create a UMEM of %"PRIu32" frames "
                                "(%s): lower other_config:xdp-umem-frames or "
                                "raise the limit on locked memory",
                                dp->n_frames, ovs_strerror(error));
            return error;
        }
    }
    if (!dp->progs) {
        const struct oxdp_progs_config config = {
            .max_ports = DPIF_XDP_MAX_PORTS,
            .max_sockets = DPIF_XDP_MAX_SOCKETS,
            .n_flows = dp->n_fast_flows,
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
        if (dp->n_fast_flows) {
            dp->fastpath = dpif_xdp_fastpath_create(dp->progs);
        }
    }
    return 0;
}

/* Opens the sockets of 'port' and attaches the program, in one way. */
static int
try_mode(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
         enum oxdp_mode mode, uint32_t n_queues, char **errorp)
{
    int fds[DPIF_XDP_MAX_QUEUES];
    int error = dpif_xdp_port_open_sockets(dp, port, mode, n_queues, fds,
                                           errorp);

    if (error) {
        return error;
    }
    error = -oxdp_progs_attach(dp->progs, port->device.ifindex,
                               mode != OXDP_MODE_GENERIC,
                               port->device.local_stack,
                               odp_to_u32(port->port_no), fds, n_queues,
                               errorp);
    if (error) {
        dpif_xdp_port_close_sockets(port, n_queues);
    } else {
        port->n_rxqs = n_queues;
    }
    return error;
}

static int
open_device(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->netdev);
    struct dpif_xdp_netdev_config config;
    enum oxdp_mode first, last, mode;
    char *text = NULL;
    uint32_t n_queues;
    bool changed;
    int error;

    dpif_xdp_netdev_get_config(port->netdev, &config);
    port->config_seq = config.seq;
    port->change_seq = netdev_get_change_seq(port->netdev);

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
    if (port->device.mtu > OXDP_MAX_MTU) {
        text = xasprintf("MTU %"PRIu32" is too large for XDP: set it to at "
                         "most %u", port->device.mtu, OXDP_MAX_MTU);
        error = EINVAL;
        goto out;
    }
    port->local_stack = port->device.local_stack;

    n_queues = MIN(port->device.n_rx_queues, DPIF_XDP_MAX_QUEUES);
    port->rxqs = xcalloc(n_queues, sizeof *port->rxqs);
    first = (config.mode == OXDP_MODE_BEST_EFFORT
             ? OXDP_MODE_NATIVE_ZEROCOPY : config.mode);
    last = (config.mode == OXDP_MODE_BEST_EFFORT
            ? OXDP_MODE_GENERIC : config.mode);
    for (mode = first; mode <= last; mode++) {
        free(text);
        text = NULL;
        error = try_mode(dp, port, mode, n_queues, &text);
        if (error != EOPNOTSUPP && error != EINVAL) {
            break;
        }
    }
    if (!error) {
        port->redirects = false;
        port->native = mode != OXDP_MODE_GENERIC;
        port->shaped = config.shaped;
        oxdp_offloads_off(name, &port->offloads);
        if (dp->taken_over) {
            dpif_xdp_netdev_count_start(port->netdev, dp->progs,
                                        &port->device);
        }
        dpif_xdp_port_follow_carrier(dp, port);
        VLOG_INFO("%s: XDP mode %s, %"PRIu32" queue%s%s", name,
                  oxdp_mode_to_string(mode), n_queues,
                  n_queues == 1 ? "" : "s",
                  port->redirects ? "" : ", the engine sends");
    }

out:
    changed = dpif_xdp_netdev_set_status(port->netdev, error ? "none"
                                         : oxdp_mode_to_string(mode), "xdp",
                                         text);
    if (error) {
        if (changed) {
            VLOG_ERR("%s: cannot use the device with XDP: %s", name,
                     text ? text : ovs_strerror(error));
        }
        free(port->rxqs);
        port->rxqs = NULL;
        memset(&port->device, 0, sizeof port->device);
    }
    free(text);
    return error;
}
