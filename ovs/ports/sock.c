/* SPDX-License-Identifier: Apache-2.0 */
/* The AF_XDP sockets of a port. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>

#include "netdev-provider.h"
#include "openvswitch/vlog.h"
#include "util.h"
#include "core/xsk/sock.h"
#include "ovs/engine/engine.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_sock);

#define FEW_FRAMES 3                    /* Fewer are logged. */

static uint32_t frames_to_lend(const struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static char *socket_error(const struct dpif_xdp_port *, enum oxdp_mode,
                          uint32_t queue, int error);

int
dpif_xdp_port_open_sockets(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                           enum oxdp_mode mode, struct dpif_xdp_rxq *rxqs,
                           uint32_t first, uint32_t n_queues, char **errorp)
{
    struct oxdp_umem *umem = dpif_xdp_packets_umem(dp->packets);

    for (uint32_t q = first; q < n_queues; q++) {
        int error = -oxdp_sock_open(umem, port->device.ifindex, q,
                                    mode == OXDP_MODE_NATIVE_ZEROCOPY,
                                    frames_to_lend(dp), &rxqs[q].sock);

        if (error) {
            *errorp = socket_error(port, mode, q, error);
            dpif_xdp_port_close_sockets(rxqs + first, q - first);
            return error;
        }
        rxqs[q].port = port;
        rxqs[q].fd = oxdp_sock_fd(rxqs[q].sock);
    }
    return 0;
}

void
dpif_xdp_port_close_sockets(struct dpif_xdp_rxq *rxqs, uint32_t n)
{
    for (uint32_t q = 0; q < n; q++) {
        oxdp_sock_close(rxqs[q].sock);
        memset(&rxqs[q], 0, sizeof rxqs[q]);
    }
}

void
dpif_xdp_port_get_fds(const struct dpif_xdp_rxq *rxqs, uint32_t n, int fds[])
{
    for (uint32_t q = 0; q < n; q++) {
        fds[q] = rxqs[q].fd;
    }
}

/* How many frames a new socket should keep waiting for packets. */
static uint32_t
frames_to_lend(const struct dpif_xdp_dp *dp)
{
    uint32_t n = oxdp_sock_fair_fill(dpif_xdp_packets_umem(dp->packets));

    if (n < FEW_FRAMES) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);

        VLOG_INFO_RL(&rl, "%s: few packet buffers are left for more ports, "
                     "bursts may be lost: raise other_config:xdp-umem-frames "
                     "(%"PRIu32" now) to 32 for each port", dp->name,
                     dp->ports.n_frames);
    }
    return n;
}

/* Why the AF_XDP socket of 'queue' did not open, and what to do about it. */
static char *
socket_error(const struct dpif_xdp_port *port, enum oxdp_mode mode,
             uint32_t queue, int error)
{
    const char *name = netdev_get_name(port->dev);

    switch (error) {
    case EOPNOTSUPP:
    case EINVAL:
        return (mode == OXDP_MODE_NATIVE_ZEROCOPY
                ? xasprintf("driver '%s' of %s has no zero-copy AF_XDP: set "
                            "options:xdp-mode to best-effort or native",
                            port->device.driver, name)
                : xasprintf("queue %"PRIu32" of %s takes no AF_XDP socket "
                            "(%s): is it an Ethernet device?", queue, name,
                            ovs_strerror(error)));
    case EBUSY:
        return xasprintf("queue %"PRIu32" of %s has an AF_XDP socket of "
                         "another program: stop that first", queue, name);
    case EAGAIN:
        return xasprintf("the kernel has not freed queue %"PRIu32" of %s, "
                         "because packets that were sent there are still "
                         "under way: tried again every second", queue, name);
    case EPERM:
    case EACCES:
        return xasprintf("opening AF_XDP sockets is not permitted: run as "
                         "root, or with CAP_NET_RAW");
    case EAFNOSUPPORT:
        return xasprintf("this kernel has no AF_XDP sockets: it needs "
                         "CONFIG_XDP_SOCKETS");
    case ENOMEM:
    case ENOBUFS:
        return xasprintf("not enough memory for the AF_XDP socket of queue "
                         "%"PRIu32" of %s", queue, name);
    case EMFILE:
    case ENFILE:
        return xasprintf("no more file descriptors for the AF_XDP socket of "
                         "queue %"PRIu32" of %s: raise the limit (\"ulimit "
                         "-n\", LimitNOFILE of systemd)", queue, name);
    default:
        return xasprintf("cannot open an AF_XDP socket on queue %"PRIu32" of "
                         "%s (%s)", queue, name, ovs_strerror(error));
    }
}
