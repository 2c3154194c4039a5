/* SPDX-License-Identifier: Apache-2.0 */
/* A port at XDP: its AF_XDP sockets, its mode, its program. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>
#include <poll.h>

#include "core/kernel/device.h"
#include "core/programs/tcx.h"
#include "core/xsk/sock.h"
#include "netdev-provider.h"
#include "openvswitch/vlog.h"
#include "ovs/engine/engine.h"
#include "ovs/fastpath/fastpath.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_xdp);

#define DRAIN_MS 100

/* Detaches the program that try_mode() attached. */
static void
undo_attach(struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    if (dpif_xdp_hook_has_tcx(dpif_xdp_port_get_hook(port))) {
        oxdp_progs_leave_xdp(dp->progs, port->device.ifindex);
    } else {
        oxdp_progs_detach(dp->progs, port->device.ifindex);
    }
}

/* Opens sockets of the queues that 'port' has got since those of '*n_queues'
 * were opened: virtio_net receives on more when it has an XDP program. */
static int
open_more_sockets(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                  enum oxdp_mode mode, struct dpif_xdp_rxq *rxqs,
                  uint32_t *n_queues, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    uint32_t before = *n_queues;
    int fds[DPIF_XDP_MAX_QUEUES];
    uint32_t n;
    int error;

    n = oxdp_device_rx_queues(netdev_get_name(port->dev));
    n = MIN(n, DPIF_XDP_MAX_QUEUES);
    if (n <= before) {
        return 0;
    }
    error
        = dpif_xdp_port_open_sockets(dp, port, mode, rxqs, before, n, errorp);
    if (error) {
        return error;
    }
    dpif_xdp_port_get_fds(rxqs, n, fds);
    error = -oxdp_progs_exchange_sockets(dp->progs, port->device.ifindex, fds,
                                         n, errorp);
    if (error) {
        dpif_xdp_port_close_sockets(rxqs + before, n - before);
    } else {
        *n_queues = n;
        port->device.n_rx_queues = n;
    }
    return error;
}

/* Opens the sockets of 'port' in 'rxqs', '*n_queues' of them or more, and
 * attaches the program, in one way. */
static int
try_mode(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
         enum oxdp_mode mode, struct dpif_xdp_rxq *rxqs, uint32_t *n_queues,
         char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    bool has_tcx = dpif_xdp_hook_has_tcx(dpif_xdp_port_get_hook(port));
    int fds[DPIF_XDP_MAX_QUEUES];
    int error = dpif_xdp_port_open_sockets(dp, port, mode, rxqs, 0, *n_queues,
                                           errorp);

    if (error) {
        return error;
    }
    dpif_xdp_port_get_fds(rxqs, *n_queues, fds);
    error = -(has_tcx
              ? oxdp_progs_attach_before(dp->progs, port->device.ifindex,
                                         mode != OXDP_MODE_GENERIC,
                                         port->device.local_stack,
                                         fds, *n_queues, errorp)
              : oxdp_progs_attach(dp->progs, port->device.ifindex,
                                  mode != OXDP_MODE_GENERIC,
                                  port->device.local_stack,
                                  odp_to_u32(port->port_no), fds, *n_queues,
                                  errorp));
    if (!error) {
        error = open_more_sockets(dp, port, mode, rxqs, n_queues, errorp);
        if (error) {
            undo_attach(dp, port);
        }
    }
    if (error) {
        dpif_xdp_port_close_sockets(rxqs, *n_queues);
    }
    return error;
}

static bool
is_best(enum oxdp_mode mode)
{
    return mode == OXDP_MODE_BEST_EFFORT || mode == OXDP_MODE_BEST_NATIVE;
}

bool
dpif_xdp_port_suits_mode(const struct dpif_xdp_port *port, enum oxdp_mode mode)
{
    return ((port->mode_asked == mode
             || (is_best(port->mode_asked) && is_best(mode) && port->native))
            && dpif_xdp_port_n_rxqs(port) >= MIN(port->device.n_rx_queues,
                                                 DPIF_XDP_MAX_QUEUES));
}

/* Opens 'port' in the first mode that works of those that 'wanted' allows. */
static int
open_modes(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
           enum oxdp_mode wanted, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *name = netdev_get_name(port->dev);
    uint32_t n_queues = MIN(port->device.n_rx_queues, DPIF_XDP_MAX_QUEUES);
    struct dpif_xdp_rxq *rxqs = xcalloc(DPIF_XDP_MAX_QUEUES, sizeof *rxqs);
    enum oxdp_mode mode, last;
    int error;

    mode = (!is_best(wanted) ? wanted
            : port->device.zerocopy ? OXDP_MODE_NATIVE_ZEROCOPY
            : OXDP_MODE_NATIVE);
    last = (wanted == OXDP_MODE_BEST_EFFORT ? OXDP_MODE_GENERIC
            : wanted == OXDP_MODE_BEST_NATIVE ? OXDP_MODE_NATIVE : wanted);
    for (; ; mode++) {
        free(*errorp);
        *errorp = NULL;
        error = try_mode(dp, port, mode, rxqs, &n_queues, errorp);
        if ((error != EOPNOTSUPP && error != EINVAL) || mode == last) {
            break;
        }
    }
    if (error) {
        port->no_native |= (wanted == OXDP_MODE_BEST_NATIVE
                            && (error == EOPNOTSUPP || error == EINVAL));
        free(rxqs);
        return error;
    }

    for (uint32_t q = 0; q < n_queues; q++) {
        rxqs[q].local_stack = port->device.local_stack;
    }
    dpif_xdp_port_set_rxqs(port, rxqs, n_queues);
    port->native = mode != OXDP_MODE_GENERIC;
    port->mode = mode;
    port->mode_asked = wanted;
    VLOG_INFO("%s: XDP mode %s, %"PRIu32" queue%s", name,
              oxdp_mode_to_string(mode), n_queues, n_queues == 1 ? "" : "s");
    return 0;
}

/* While 'port' is also at tcx, flows are such that either hook runs them, and
 * packets are finished before XDP sees the first. */
static int
open_before_tcx(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                enum oxdp_mode mode, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *name = netdev_get_name(port->dev);
    int error;

    dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_BOTH);
    port->peer_unset = oxdp_offloads_off(name, &port->offloads);
    dpif_xdp_sender_stop(dp, port);
    error = open_modes(dp, port, mode, errorp);
    if (error) {
        oxdp_offloads_after_xdp(name, &port->offloads);
        oxdp_offloads_serve(name, &port->offloads);
        dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_TCX);
    }
    return error;
}

/* Waits until engine threads have received what the sockets of 'port' have. */
static void
drain(const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    long long int end = time_msec() + DRAIN_MS;

    for (size_t i = 0; i < dpif_xdp_port_n_rxqs(port); i++) {
        struct pollfd pfd = {
            .fd = dpif_xdp_port_rxq(port, i)->fd, .events = POLLIN,
        };

        while (poll(&pfd, 1, 0) > 0 && time_msec() < end) {
            xnanosleep(1000 * 1000);
        }
    }
}

static void
close_sockets(struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    size_t n = dpif_xdp_port_n_rxqs(port);
    struct dpif_xdp_rxq *rxqs;

    drain(port);
    dpif_xdp_threads_remove_port(port);
    rxqs = dpif_xdp_port_set_rxqs(port, NULL, 0);
    for (size_t i = 0; i < n; i++) {
        dpif_xdp_sender_retire(port, rxqs[i].sock);
    }
    free(rxqs);
}

void
dpif_xdp_port_leave_xdp(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->dev);

    oxdp_offloads_serve(name, &port->offloads);
    oxdp_progs_leave_xdp(dp->progs, port->device.ifindex);
    oxdp_offloads_after_xdp(name, &port->offloads);
    dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_TCX);
    close_sockets(port);
    port->native = true;
    port->prepared = true;              /* XDP has been sending to it. */
    dp->ports.n_xdp_ports--;
}

/* Undoes what open_modes() did for 'port', which is not at tcx. */
static void
take_back(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    oxdp_progs_detach(dp->progs, port->device.ifindex);
    close_sockets(port);
    port->native = false;
}

int
dpif_xdp_port_add_xdp(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                      enum oxdp_mode mode, char **errorp)
{
    bool has_tcx = dpif_xdp_hook_has_tcx(dpif_xdp_port_get_hook(port));
    int error;

    /* The first can send to all ports when its first frame comes. */
    if (!dp->ports.n_xdp_ports++) {
        dpif_xdp_ports_follow_xdp(dp);
    }
    error = (has_tcx ? open_before_tcx(dp, port, mode, errorp)
             : open_modes(dp, port, mode, errorp));
    if (error) {
        dp->ports.n_xdp_ports--;
        return error;
    }
    error = dpif_xdp_threads_add_port(dp, port, errorp);
    if (error && has_tcx) {
        dpif_xdp_port_leave_xdp(dp, port);
        return error;
    } else if (error) {
        dp->ports.n_xdp_ports--;
        take_back(dp, port);
        return error;
    }
    if (!has_tcx) {
        port->peer_unset = oxdp_offloads_off(netdev_get_name(port->dev),
                                             &port->offloads);
        dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_XDP);
    }
    return 0;
}

/* The file of the program that 'port' should have, NULL for ours.  The caller
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

int
dpif_xdp_port_use_wanted_obj(struct dpif_xdp_dp *dp,
                             struct dpif_xdp_port *port, char **errorp)
{
    char *obj = wanted_obj(dp, port);
    int error = use_obj(dp, port, obj, errorp);

    free(obj);
    return error;
}

void
dpif_xdp_port_forget_obj(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    if (port->obj && dp->progs) {
        use_obj(dp, port, NULL, NULL);
    }
}
