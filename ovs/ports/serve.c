/* SPDX-License-Identifier: Apache-2.0 */
/* How a port is served: by programs at XDP, at tcx or both, or by the engine
 * through a packet socket.
 *
 * An open port changes from one to the other without a gap: the new hook is
 * there before the old one goes, and in between each flow is one that both can
 * run.  Another mode of XDP comes by way of tcx, for the same reason. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>

#include "core/kernel/device.h"
#include "core/programs/progs.h"
#include "netdev-provider.h"
#include "openvswitch/vlog.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_serve);

static bool
is_served(const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    return (dpif_xdp_port_get_hook(port) != DPIF_XDP_HOOK_NONE
            || dpif_xdp_port_has_packet_socket(port));
}

bool
dpif_xdp_port_is_bare(const struct dpif_xdp_dp *dp,
                      const struct dpif_xdp_port *port)
{
    return dp->progs && oxdp_progs_bare(dp->progs) && !port->obj;
}

/* Whether 'port' is served as 'choice' says. */
static bool
is_served_so(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
             const struct dpif_xdp_choice *choice)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    enum dpif_xdp_hook hook = dpif_xdp_port_get_hook(port);

    return (hook == choice->hook
            && (hook != DPIF_XDP_HOOK_NONE
                || dpif_xdp_port_has_packet_socket(port))
            && (!dpif_xdp_hook_has_xdp(hook)
                || (dpif_xdp_port_suits_mode(port, choice->mode)
                    && (choice->bare || !dpif_xdp_port_is_bare(dp, port)))));
}

/* Updates facts about the device that may have changed, but not those that the
 * choices depend on. */
static int
refresh_device(struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct oxdp_device device;
    int error = -oxdp_device_get(netdev_get_name(port->dev), &device);

    if (error || device.ifindex != port->device.ifindex) {
        return error ? error : ENODEV;
    }
    device.peer_xdp = port->device.peer_xdp;
    device.guest_offloads = port->device.guest_offloads;
    port->device = device;
    return 0;
}

/* Attaches what 'choice' asks for and 'port' lacks, then detaches what
 * 'choice' does not ask for. */
static int
change_hooks(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
             const struct dpif_xdp_choice *choice, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    enum dpif_xdp_hook hook = dpif_xdp_port_get_hook(port);
    bool has_xdp = dpif_xdp_hook_has_xdp(hook);
    bool has_tcx = dpif_xdp_hook_has_tcx(hook);
    bool xdp = dpif_xdp_hook_has_xdp(choice->hook);
    bool tcx = dpif_xdp_hook_has_tcx(choice->hook);
    bool other_mode = (xdp && has_xdp
                       && !dpif_xdp_port_suits_mode(port, choice->mode));
    int error = 0;

    if (!has_tcx && (tcx || other_mode) && (has_xdp || !xdp)) {
        error = dpif_xdp_port_add_tcx(dp, port, errorp);
        has_tcx = !error;
    }
    if (!error && other_mode) {
        dpif_xdp_port_leave_xdp(dp, port);
        has_xdp = false;
    }
    if (!error && xdp && !has_xdp) {
        error = dpif_xdp_port_add_xdp(dp, port, choice->mode, errorp);
        has_xdp = !error;
    }
    if (!error && tcx && !has_tcx) {
        error = dpif_xdp_port_add_tcx(dp, port, errorp);
    }
    if (error) {
        return error;
    }
    if (!tcx && has_tcx) {
        dpif_xdp_port_leave_tcx(dp, port);
    } else if (!xdp && has_xdp) {
        dpif_xdp_port_leave_xdp(dp, port);
    }
    return 0;
}

/* Makes programs serve 'port' as 'choice' says.  If that fails, a packet
 * socket that has served it goes on. */
static int
use_programs(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
             const struct dpif_xdp_choice *choice, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_rxq *parked = NULL;
    int error = dpif_xdp_kernel_side_prepare(dp, errorp);

    error = error ? error : refresh_device(port);
    if (error) {
        return error;
    }
    /* Asked first, because a failed try would interrupt the port. */
    if (dpif_xdp_hook_has_xdp(choice->hook) && port->other_xdp) {
        error = -oxdp_progs_check_owner(port->device.ifindex, errorp);
        if (error) {
            return error;
        }
    }
    if (dpif_xdp_hook_has_xdp(choice->hook) && !choice->bare
        && dpif_xdp_port_is_bare(dp, port)) {
        *errorp = xstrdup(oxdp_progs_bare(dp->progs));
        return EOPNOTSUPP;
    }
    if (dpif_xdp_port_has_packet_socket(port)) {
        parked = dpif_xdp_port_park_packet_socket(port);
        oxdp_offloads_restore(port->offloads);
        port->offloads = NULL;
    }
    error = change_hooks(dp, port, choice, errorp);
    if (parked && dpif_xdp_port_get_hook(port) == DPIF_XDP_HOOK_NONE) {
        char *none = NULL;

        oxdp_offloads_off(netdev_get_name(port->dev), &port->offloads);
        if (dpif_xdp_port_resume_packet_socket(dp, port, parked, &none)) {
            dpif_xdp_port_close_packet_socket(port, parked);
        }
        free(none);
    } else if (parked) {
        dpif_xdp_port_close_packet_socket(port, parked);
    }
    return error;
}

int
dpif_xdp_port_serve(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                    const struct dpif_xdp_choices *choices, char **whyp)
{
    bool wait = false;
    int error = 0;

    *whyp = NULL;
    for (size_t i = 0; i < choices->n; i++) {
        const struct dpif_xdp_choice *choice = &choices->list[i];
        char *text = NULL;

        if (is_served_so(dp, port, choice)
            || ((choice->hook == DPIF_XDP_HOOK_NONE || wait)
                && is_served(port))) {
            return wait ? EAGAIN : 0;
        }
        error = (choice->hook == DPIF_XDP_HOOK_NONE
                 ? dpif_xdp_port_open_packet_socket(dp, port, &text)
                 : use_programs(dp, port, choice, &text));
        if (!error) {
            return wait ? EAGAIN : 0;
        }
        wait = wait || error == EAGAIN;
        VLOG_DBG("%s: not at %s: %s", netdev_get_name(port->dev),
                 dpif_xdp_hook_to_string(choice->hook),
                 text ? text : ovs_strerror(error));
        if (!*whyp) {
            *whyp = text ? text : xstrdup(ovs_strerror(error));
        } else {
            free(text);
        }
        if (error == ENODEV) {
            break;
        }
    }
    return error == EAGAIN ? EBUSY : error;
}
