/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a port, adapts it to changes of its device and options, closes it. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>
#include <limits.h>

#include "core/kernel/device.h"
#include "core/kernel/netlink.h"
#include "core/programs/tcx.h"
#include "core/xsk/sock.h"
#include "netdev-linux-private.h"
#include "netdev-provider.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/vlog.h"
#include "ovs/engine/engine.h"
#include "ovs/fastpath/fastpath.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_open);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(60, 20);

static int open_device(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static int open_netdev(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static int look_at_device(const struct dpif_xdp_dp *, struct dpif_xdp_port *,
                          char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static bool look_at_changes(const struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static int serve(struct dpif_xdp_dp *, struct dpif_xdp_port *, char **whyp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static void follow_everything(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
static void tell_refusal(struct dpif_xdp_port *, int error, const char *why);

int
dpif_xdp_port_open(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    int error = port->is_device ? open_device(dp, port)
                : open_netdev(dp, port);

    if (!error) {
        dpif_xdp_tx_wrlock(port);
        port->open = true;
        dpif_xdp_tx_unlock(port);
    }
    return error;
}

static int
open_device(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    char *why = NULL;
    int error = look_at_device(dp, port, &why);

    port->fit = !error;
    error = error ? error : serve(dp, port, &why);
    if (error) {
        tell_refusal(port, error, why);
        dpif_xdp_port_forget_obj(dp, port);
        memset(&port->device, 0, sizeof port->device);
    } else {
        if (dpif_xdp_port_get_hook(port) != DPIF_XDP_HOOK_NONE
            && dp->ports.taken_over) {
            dpif_xdp_netdev_count_start(port->dev, dp->progs, &port->device);
        }
        dpif_xdp_port_follow_limit(dp, port);
        dpif_xdp_port_set_tcx_output(dp, port, true);
        follow_everything(dp, port);
        dpif_xdp_port_warn_of_filters(dp, port);
    }
    free(why);
    return error;
}

/* Opens 'n' queues for a port without AF_XDP: taps, tunnels, test devices. */
static int
open_netdev(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct netdev *netdev = port->dev;
    size_t n = netdev_n_rxq(netdev);
    struct dpif_xdp_rxq *rxqs = xcalloc(n, sizeof *rxqs);
    size_t n_open = 0;
    char *text = NULL;
    int error = 0;

    for (size_t i = 0; i < n && !error; i++) {
        struct dpif_xdp_rxq *rxq = &rxqs[i];

        error = netdev_rxq_open(netdev, &rxq->rxq, i);
        if (!error) {
            rxq->port = port;
            rxq->fd = (is_netdev_linux_class(netdev_get_class(netdev))
                       ? netdev_rxq_linux_cast(rxq->rxq)->fd : -1);
            n_open++;
        }
    }
    dpif_xdp_port_set_rxqs(port, rxqs, n_open);
    error = error ? error : dpif_xdp_threads_add_port(dp, port, &text);
    if (error) {
        VLOG_ERR("%s: cannot receive from the device: %s",
                 netdev_get_name(netdev), text ? text : ovs_strerror(error));
        free(text);
        dpif_xdp_port_close(dp, port);
    }
    return error;
}

/* Whether another port has the device of 'port', by another name: both would
 * receive each packet. */
static bool
is_open_elsewhere(const struct dpif_xdp_dp *dp,
                  const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const struct dpif_xdp_port *other;

    DPIF_XDP_FOR_EACH_PORT (other, dp) {
        if (other != port && other->device.ifindex == port->device.ifindex) {
            return true;
        }
    }
    return false;
}

/* Looks up the device of 'port', and whether it may be a port. */
static int
look_at_device(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
               char **errorp)
{
    const char *name = netdev_get_name(port->dev);
    int error = dpif_xdp_port_check_device(dp, name, errorp);

    port->change_seq = netdev_get_change_seq(port->dev);
    if (error) {
        return error;
    }
    error = -oxdp_device_get(name, &port->device);
    if (error) {
        *errorp = xasprintf("cannot ask the kernel about %s: %s", name,
                            ovs_strerror(error));
        return error;
    }
    if (is_open_elsewhere(dp, port)) {
        memset(&port->device, 0, sizeof port->device);
        *errorp = xstrdup("the device is already a port of this datapath");
        return EBUSY;
    }
    atomic_store(&port->hook, DPIF_XDP_HOOK_NONE);
    port->redirects = false;
    port->prepared = false;
    port->native = false;
    port->no_native = false;
    look_at_changes(dp, port);
    return 0;
}

/* Updates the facts that decide about the hook and may change while the device
 * stays the same.  Returns whether any has changed. */
static bool
look_at_changes(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->dev);
    uint32_t largest_before = port->largest_mtu;
    uint32_t smallest_before = port->smallest_mtu;
    bool xdp_before = port->device.peer_xdp;
    bool offloads_before = port->device.guest_offloads;
    uint32_t queues_before = port->device.n_rx_queues;
    bool sends_before = port->guest.sends_unfinished;
    bool other_before = port->other_xdp;
    bool underlay_before = port->underlay;
    struct oxdp_link peer;
    int mtu;

    port->largest_mtu = netdev_get_mtu(port->dev, &mtu) ? 0 : mtu;
    port->smallest_mtu = port->largest_mtu;
    if (port->device.peer_ifindex
        && !oxdp_link_get_in(port->device.peer_nsid, port->device.peer_ifindex,
                             &peer, NULL)) {
        port->largest_mtu = MAX(port->largest_mtu, peer.mtu);
        port->smallest_mtu = MIN(port->smallest_mtu, peer.mtu);
    }
    port->device.peer_xdp = oxdp_device_peer_has_xdp(name);
    if (port->device.peer_xdp != xdp_before) {
        VLOG_INFO("%s: an XDP program %s the peer", name,
                  xdp_before ? "was detached from" : "was attached to");
    }
    dpif_xdp_port_ask_about_guest(port);
    if (dpif_xdp_hook_has_xdp(dpif_xdp_port_get_hook(port))) {
        uint32_t n_queues = oxdp_device_rx_queues(name);

        port->device.n_rx_queues = MAX(queues_before, n_queues);
    }
    port->other_xdp = dpif_xdp_port_has_other_xdp(port);
    port->underlay = dpif_xdp_port_is_underlay(dp, port);
    return (port->largest_mtu != largest_before
            || port->smallest_mtu != smallest_before
            || port->other_xdp != other_before
            || port->underlay != underlay_before
            || port->device.peer_xdp != xdp_before
            || port->device.guest_offloads != offloads_before
            || port->guest.sends_unfinished != sends_before
            || port->device.n_rx_queues != queues_before);
}

/* The program of 'port', open with XDP or soon to be.  Says in '*whyp' if that
 * is not the one that it should have. */
static void
use_obj(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
        enum dpif_xdp_hook hook, char **whyp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    char *none = NULL;

    if (!dpif_xdp_hook_has_xdp(hook)) {
        dpif_xdp_port_forget_obj(dp, port);
    } else if (dpif_xdp_kernel_side_prepare(dp, &none)) {
        free(none);
    } else {
        dpif_xdp_port_use_wanted_obj(dp, port, whyp);
    }
}

/* The warning about the MTU of 'port', or NULL.  The caller frees it. */
static char *
mtu_warning(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
            const struct dpif_xdp_choices *choices)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    uint32_t limit = dpif_xdp_port_max_mtu(dp, port);

    if (dpif_xdp_hook_has_xdp(choices->wanted) && port->largest_mtu > limit) {
        return xasprintf("MTU %"PRIu32" is larger than XDP takes, which is "
                         "%"PRIu32": %s serves the port",
                         port->largest_mtu, limit,
                         dpif_xdp_hook_has_tcx(dpif_xdp_port_get_hook(port))
                         ? "tcx" : "the engine");
    }
    return NULL;
}

/* The warning about XDP in mode generic without 'xdp-mode=generic', or NULL.
 * The caller frees it. */
static char *
generic_warning(const struct dpif_xdp_port *port,
                const struct dpif_xdp_choices *choices)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    if (dpif_xdp_hook_has_xdp(dpif_xdp_port_get_hook(port))
        && port->mode == OXDP_MODE_GENERIC
        && choices->list[0].mode == OXDP_MODE_BEST_EFFORT) {
        return xasprintf("driver '%s' has no native XDP as the device is set "
                         "up now: generic XDP copies each packet, and "
                         "options:xdp-hook=tcx is faster",
                         port->device.driver);
    }
    return NULL;
}

/* The warning about queues that virtio_net lacks for XDP, or NULL.  The kernel
 * then lets XDP send on those of the network stack, with a lock
 * (virtnet_xdp_set of drivers/net/virtio_net.c).  The caller frees it. */
static char *
queues_warning(const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    if (dpif_xdp_hook_has_xdp(dpif_xdp_port_get_hook(port)) && port->native
        && !strcmp(port->device.driver, "virtio_net")
        && port->device.n_rx_queues <= port->device.n_tx_queues) {
        return xasprintf("%s has no transmit queues for XDP beside those of "
                         "the network stack, which XDP has to lock: start the "
                         "guest with more queues than are in use by one for "
                         "each of its CPUs (QEMU: queues=N, mq=on, "
                         "vectors=2N+2), or use fewer (ethtool -L %s combined "
                         "N)", netdev_get_name(port->dev),
                         netdev_get_name(port->dev));
    }
    return NULL;
}

/* Sets the status of the device of 'port'.  An internal port shows that of its
 * peer. */
static bool
set_status(struct dpif_xdp_port *port, const char *mode,
           enum dpif_xdp_hook hook, const char *obj, const char *error)
{
    bool changed = dpif_xdp_netdev_set_status(port->dev, mode,
                                              dpif_xdp_hook_to_string(hook),
                                              obj, error);

    if (changed && port->netdev != port->dev) {
        netdev_change_seq_changed(port->netdev);
    }
    return changed;
}

/* Reports how 'port' is served: 'why' if that is not the first choice, which
 * is no problem if it is 'for_now', and 'obj_error' if it is not with the
 * program that it should have. */
static void
tell(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
     const struct dpif_xdp_choices *choices, const char *why, bool for_now,
     const char *obj_error)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    enum dpif_xdp_hook hook = dpif_xdp_port_get_hook(port);
    bool has_xdp = dpif_xdp_hook_has_xdp(hook);
    const char *mode = has_xdp ? oxdp_mode_to_string(port->mode) : "none";
    char *mtu = mtu_warning(dp, port, choices);
    char *generic = generic_warning(port, choices);
    char *queues = queues_warning(port);
    struct ds text = DS_EMPTY_INITIALIZER;

    if (why) {
        ds_put_format(&text, "%s; ", why);
        if (hook == DPIF_XDP_HOOK_NONE) {
            ds_put_cstr(&text, "the engine serves the port alone, through a "
                        "packet socket");
        } else if (!has_xdp) {
            ds_put_cstr(&text, "tcx is used");
        } else if (dpif_xdp_port_is_bare(dp, port)) {
            ds_put_format(&text, "XDP in mode %s without flow tables is used: "
                          "AF_XDP takes every packet to the engine", mode);
        } else {
            ds_put_format(&text, "XDP in mode %s is used", mode);
        }
    }
    if (obj_error) {
        ds_put_format(&text, "%s%s; ", text.length ? "; " : "", obj_error);
        if (has_xdp) {
            ds_put_format(&text, "the program of %s is used",
                          port->obj ? port->obj : "the datapath");
        } else {
            ds_put_cstr(&text, "no XDP program is used");
        }
    }
    if (set_status(port, mode, hook, port->obj,
                   text.length ? ds_cstr(&text) : NULL)
        && text.length) {
        VLOG_RL(&rl, for_now && !obj_error ? VLL_INFO : VLL_WARN, "%s: %s",
                netdev_get_name(port->dev), ds_cstr(&text));
    }
    dpif_xdp_netdev_set_warning(port->dev, DPIF_XDP_WARNING_MTU, mtu);
    dpif_xdp_netdev_set_warning(port->dev, DPIF_XDP_WARNING_GENERIC, generic);
    ds_destroy(&text);
    free(mtu);
    dpif_xdp_netdev_set_warning(port->dev, DPIF_XDP_WARNING_QUEUES, queues);
    free(generic);
    free(queues);
}

static void
tell_refusal(struct dpif_xdp_port *port, int error, const char *why)
{
    if (set_status(port, "none", DPIF_XDP_HOOK_NONE, NULL, why)) {
        /* A device that was removed while it was opened is no error. */
        VLOG_RL(&rl, error == ENODEV ? VLL_INFO : VLL_ERR,
                "%s: cannot use the device: %s", netdev_get_name(port->dev),
                why ? why : ovs_strerror(error));
    }
}

/* A port that is not on the hook that it should have, or not with the program,
 * is tried again: every second if it is so 'for_now'.  (A mode that the driver
 * lacks is not.) */
static void
plan_retry(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
           const struct dpif_xdp_choices *choices, bool for_now,
           bool has_program)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    enum dpif_xdp_hook hook = dpif_xdp_port_get_hook(port);

    if (!for_now && hook == choices->list[0].hook && has_program
        && !(dpif_xdp_hook_has_xdp(hook) && dpif_xdp_port_is_bare(dp, port))) {
        port->retry_ms = 0;
        port->retry = LLONG_MAX;
    } else {
        port->retry_ms = dpif_xdp_backoff_next(for_now ? 0 : port->retry_ms);
        port->retry = time_msec() + port->retry_ms;
    }
}

/* Serves 'port' in the best way that its device, its options and the kernel
 * allow, and reports how. */
static int
serve(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port, char **whyp)
{
    struct dpif_xdp_netdev_config config;
    struct dpif_xdp_choices choices;
    bool knew = port->no_native;
    char *obj_error = NULL;
    bool for_now;
    int error;

    dpif_xdp_netdev_get_config(port->dev, &config);
    port->config_seq = config.seq;
    port->obj_seq = config.obj_seq;
    dpif_xdp_port_choices(dp, port, &config, &choices);
    use_obj(dp, port, choices.list[0].hook, &obj_error);
    error = dpif_xdp_port_serve(dp, port, &choices, whyp);
    if (!error && port->no_native && !knew) {
        free(*whyp);
        dpif_xdp_port_choices(dp, port, &config, &choices);
        error = dpif_xdp_port_serve(dp, port, &choices, whyp);
    }
    for_now = error == EAGAIN;
    error = for_now ? 0 : error;
    if (!error) {
        if (!dpif_xdp_hook_has_xdp(dpif_xdp_port_get_hook(port))) {
            dpif_xdp_port_forget_obj(dp, port);
        }
        plan_retry(dp, port, &choices, for_now, !obj_error);
        tell(dp, port, &choices, *whyp, for_now, obj_error);
    }
    free(obj_error);
    return error;
}

/* An XDP program was attached to, or detached from, the peer of 'port', a veth
 * whose hook stays. */
static int
follow_peer(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    bool peer_xdp = port->device.peer_xdp;

    if (dpif_xdp_hook_is_tcx(dpif_xdp_port_get_hook(port))) {
        int error = -oxdp_tcx_set_from_xdp(dp->progs, port->device.ifindex,
                                           peer_xdp);

        if (error) {
            return error;
        }
    }
    oxdp_offloads_follow_peer(netdev_get_name(port->dev), peer_xdp,
                              &port->offloads);
    return 0;
}

/* Chooses anew how an open port is served, and changes that without a gap. */
static int
serve_again(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    enum dpif_xdp_hook before = dpif_xdp_port_get_hook(port);
    char *why = NULL;
    int error = serve(dp, port, &why);

    if (!error && before == DPIF_XDP_HOOK_NONE
        && dpif_xdp_port_get_hook(port) != DPIF_XDP_HOOK_NONE) {
        VLOG_INFO("%s: programs serve the port now",
                  netdev_get_name(port->dev));
        if (dp->ports.taken_over) {
            dpif_xdp_netdev_count_start(port->dev, dp->progs, &port->device);
        }
        dpif_xdp_port_set_tcx_output(dp, port, true);
    }
    free(why);
    return error ? error : follow_peer(dp, port);
}

void
dpif_xdp_port_update(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct dpif_xdp_netdev_config config;
    bool changed = look_at_changes(dp, port);

    dpif_xdp_netdev_get_config(port->dev, &config);
    changed |= (config.seq != port->config_seq
                || config.obj_seq != port->obj_seq);
    if (changed) {
        port->retry_ms = 0;
        port->no_native = false;
    }
    if ((changed || time_msec() >= port->retry) && serve_again(dp, port)) {
        dpif_xdp_port_close(dp, port);
        port->retry = 0;                /* Opens it anew. */
        return;
    }
    follow_everything(dp, port);
}

/* Checks 'port' after any change of its device. */
static void
follow_everything(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct dpif_xdp_netdev_config config;

    dpif_xdp_netdev_get_config(port->dev, &config);
    dpif_xdp_tx_wrlock(port);
    port->shaped = config.shaped;
    dpif_xdp_tx_unlock(port);
    dpif_xdp_port_follow_limit(dp, port);
    dpif_xdp_port_follow_carrier(dp, port);
    if (dpif_xdp_upcalls_port(dp)) {
        dpif_xdp_port_follow_shortcut(dp, port);
    }
    dpif_xdp_port_follow_guest(dp, port);
    dpif_xdp_port_warn_of_users(port);
}

/* Takes all programs from the device of 'port'. */
static void
detach(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    enum dpif_xdp_hook hook = dpif_xdp_port_get_hook(port);

    oxdp_progs_set_output(dp->progs, odp_to_u32(port->port_no), 0);
    dpif_xdp_port_set_tcx_output(dp, port, false);
    dpif_xdp_flow_lock(dp);
    dpif_xdp_fastpath_port_closed(dp, port->port_no);
    dpif_xdp_flow_unlock(dp);
    dpif_xdp_port_forget_limit(dp, port);
    if (hook != DPIF_XDP_HOOK_NONE) {
        dp->ports.n_xdp_ports -= dpif_xdp_hook_has_xdp(hook);
        dpif_xdp_netdev_count_stop(port->dev);
        oxdp_progs_detach(dp->progs, port->device.ifindex);
        atomic_store(&port->hook, DPIF_XDP_HOOK_NONE);
    }
}

void
dpif_xdp_port_close(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct dpif_xdp_rxq *rxqs;
    size_t n_rxqs;

    dpif_xdp_tx_wrlock(port);
    port->open = false;
    port->packet_socket = false;
    dpif_xdp_tx_unlock(port);

    if (port->is_device && dp->progs) {
        detach(dp, port);
    }
    if (port->is_device && port->device.ifindex) {
        dpif_xdp_netdev_set_promiscuous(port->dev, false);
    }
    dpif_xdp_sender_close(dp, port);
    dpif_xdp_threads_remove_port(port);
    n_rxqs = dpif_xdp_port_n_rxqs(port);
    rxqs = dpif_xdp_port_set_rxqs(port, NULL, 0);
    for (size_t i = 0; i < n_rxqs; i++) {
        dpif_xdp_sender_retire(port, rxqs[i].sock);
        netdev_rxq_close(rxqs[i].rxq);
    }
    free(rxqs);

    oxdp_offloads_restore(port->offloads);
    port->offloads = NULL;
    memset(&port->device, 0, sizeof port->device);
}
