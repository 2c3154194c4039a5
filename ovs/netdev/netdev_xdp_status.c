/* SPDX-License-Identifier: Apache-2.0 */
/* The Interface's columns "error" and "status". */
#include <config.h>

#include "ovs/netdev/netdev_xdp_private.h"

#include <string.h>

#include "core/programs/tcx.h"
#include "netdev-provider.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/vlog.h"
#include "ovs/netdev/netdev_internal.h"
#include "smap.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(netdev_xdp_status);

#define OBJ_WARNING \
    "xdp-obj has no effect on a port with xdp-hook=tcx, whose packets do " \
    "not meet XDP"

#define OTHERS_WARNING                                                      \
    "foreign programs are before the switch at tcx of the device: only "    \
    "packets for which they all return TCX_NEXT reach it"

bool
netdev_xdp_replace_text(char **text, const char *new)
{
    if (nullable_string_is_equal(*text, new)) {
        return false;
    }
    free(*text);
    *text = nullable_xstrdup(new);
    return true;
}

bool
dpif_xdp_netdev_set_status(struct netdev *netdev_, const char *mode,
                           const char *hook, const char *obj,
                           const char *error)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    bool changed;

    netdev_xdp_lock(netdev);
    changed = netdev_xdp_replace_text(&netdev->mode_in_use, mode);
    changed |= netdev_xdp_replace_text(&netdev->hook_in_use, hook);
    changed |= netdev_xdp_replace_text(&netdev->obj_in_use, obj);
    changed |= netdev_xdp_replace_text(&netdev->error, error);
    netdev_xdp_unlock(netdev);

    if (changed) {
        netdev_change_seq_changed(netdev_);
    }
    return changed;
}

/* Appends 'text', if it is not NULL, to the sentences in 'ds'. */
static void
add_sentence(struct ds *ds, const char *text)
{
    if (text) {
        ds_put_format(ds, "%s%s", ds->length ? "; " : "", text);
    }
}

static char *
all_errors(const struct netdev_xdp *netdev)
    OVS_REQUIRES(dpif_xdp_netdev_mutex)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    add_sentence(&ds, netdev->error);
    add_sentence(&ds, netdev->option_error);
    return ds.length ? ds_steal_cstr(&ds) : NULL;
}

char *
dpif_xdp_netdev_get_error(const struct netdev *netdev_)
{
    struct netdev *device;
    char *error = NULL;

    if (dpif_xdp_internal_is(netdev_)
        && !dpif_xdp_internal_open_device(netdev_, &device)) {
        error = dpif_xdp_netdev_get_error(device);
        netdev_close(device);
    } else if (dpif_xdp_netdev_is(netdev_)) {
        struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);

        netdev_xdp_lock(netdev);
        error = all_errors(netdev);
        netdev_xdp_unlock(netdev);
    }
    return error;
}

void
dpif_xdp_netdev_set_warning(struct netdev *netdev_,
                            enum dpif_xdp_warning warning, const char *text)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    bool changed;

    netdev_xdp_lock(netdev);
    changed = netdev_xdp_replace_text(&netdev->warnings[warning], text);
    netdev_xdp_unlock(netdev);

    if (changed) {
        if (text) {
            VLOG_WARN("%s: %s", netdev_get_name(netdev_), text);
        }
        netdev_change_seq_changed(netdev_);
    }
}

/* Whether foreign programs see packets at tcx before ours. */
static bool
others_first(const struct netdev_xdp *netdev)
    OVS_REQUIRES(dpif_xdp_netdev_mutex)
{
    return (netdev->progs
            && !nullable_string_is_equal(netdev->hook_in_use, "xdp")
            && oxdp_tcx_others_first(netdev->progs, netdev->ifindex));
}

/* The kernel sends no message when they come and go. */
void
dpif_xdp_netdev_follow_others(struct netdev *netdev_)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    bool changed;

    netdev_xdp_lock(netdev);
    changed = netdev->others != others_first(netdev);
    netdev_xdp_unlock(netdev);
    if (changed) {
        netdev_change_seq_changed(netdev_);
    }
}

static void
add_warnings(struct netdev_xdp *netdev, struct smap *status)
    OVS_REQUIRES(dpif_xdp_netdev_mutex)
{
    bool on_tcx = nullable_string_is_equal(netdev->hook_in_use, "tcx");
    struct ds ds = DS_EMPTY_INITIALIZER;

    for (size_t i = 0; i < DPIF_XDP_N_WARNINGS; i++) {
        /* Nobody says when mtu_request goes. */
        if (i != DPIF_XDP_WARNING_MTU_REQUEST
            || netdev->up.up.mtu_user_config) {
            add_sentence(&ds, netdev->warnings[i]);
        }
    }
    if (on_tcx && netdev->config.has_obj) {
        add_sentence(&ds, OBJ_WARNING);
    }
    netdev->others = others_first(netdev);
    if (netdev->others) {
        add_sentence(&ds, OTHERS_WARNING);
    }
    if (ds.length) {
        smap_add(status, "xdp-warning", ds_cstr(&ds));
    }
    ds_destroy(&ds);
}

int
netdev_xdp_get_status(const struct netdev *netdev_, struct smap *status)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    int error = netdev_linux_class.get_status(netdev_, status);
    char *errors;

    netdev_xdp_lock(netdev);
    if (netdev->mode_in_use) {
        smap_add(status, "xdp-mode", netdev->mode_in_use);
        smap_add(status, "xdp-hook", netdev->hook_in_use);
    }
    if (netdev->obj_in_use) {
        smap_add(status, "xdp-obj", netdev->obj_in_use);
    }
    if (netdev->progs && netdev->peer_ifindex) {
        smap_add_format(status, "peer_ifindex", "%d", netdev->peer_ifindex);
    }
    errors = all_errors(netdev);
    if (errors) {
        smap_add_nocopy(status, xstrdup("xdp-error"), errors);
    }
    add_warnings(netdev, status);
    netdev_xdp_unlock(netdev);
    return smap_is_empty(status) ? error : 0;
}

