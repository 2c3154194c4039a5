/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/netdev/netdev_xdp_private.h"

#include <errno.h>
#include <string.h>

#include "core/kernel/device.h"
#include "core/kernel/netlink.h"
#include "core/kernel/shortcut.h"
#include "core/programs/tcx.h"
#include "netdev-provider.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/vlog.h"
#include "ovs-thread.h"
#include "smap.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(netdev_xdp);

#define POLICING_WARNING                                                    \
    "ingress_policing_rate and ingress_policing_kpkts_rate have no effect "  \
    "on a port with XDP: limit it with an OpenFlow meter"

#define OBJ_WARNING                                                         \
    "xdp-obj has no effect on a port with xdp-hook=tcx, whose packets do not " \
    "meet XDP"

#define OTHERS_WARNING                                                      \
    "programs of others stand before the switch at tcx of the device: only "  \
    "packets for which they all return TCX_NEXT reach it"

/* Open vSwitch's class with some members replaced.  The rest, among it 'run'
 * by which lib/netdev-linux.c knows its own, stays. */
static struct netdev_class netdev_xdp_class;

bool
dpif_xdp_netdev_is(const struct netdev *netdev)
{
    return netdev_get_class(netdev) == &netdev_xdp_class;
}

void
dpif_xdp_netdev_get_config(const struct netdev *netdev_,
                           struct dpif_xdp_netdev_config *config)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);

    ovs_mutex_lock(&netdev->mutex);
    *config = netdev->config;
    ovs_mutex_unlock(&netdev->mutex);
}

/* Replaces '*text' by a copy of 'new'.  Returns whether that is a change. */
static bool
replace_text(char **text, const char *new)
{
    if (nullable_string_is_equal(*text, new)) {
        return false;
    }
    free(*text);
    *text = nullable_xstrdup(new);
    return true;
}

char *
dpif_xdp_netdev_get_obj(const struct netdev *netdev_)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    char *obj;

    ovs_mutex_lock(&netdev->mutex);
    obj = nullable_xstrdup(netdev->obj);
    ovs_mutex_unlock(&netdev->mutex);
    return obj;
}

bool
dpif_xdp_obj_is_file(const char *obj)
{
    return obj && obj[0] == '/';
}

bool
dpif_xdp_obj_is_valid(const char *obj)
{
    return dpif_xdp_obj_is_file(obj) || !strcmp(obj, "builtin");
}

bool
dpif_xdp_netdev_set_status(struct netdev *netdev_, const char *mode,
                           const char *hook, const char *obj,
                           const char *error)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    bool changed;

    ovs_mutex_lock(&netdev->mutex);
    changed = replace_text(&netdev->mode_in_use, mode);
    changed |= replace_text(&netdev->hook_in_use, hook);
    changed |= replace_text(&netdev->obj_in_use, obj);
    changed |= replace_text(&netdev->error, error);
    ovs_mutex_unlock(&netdev->mutex);

    if (changed) {
        netdev_change_seq_changed(netdev_);
    }
    return changed;
}

void
dpif_xdp_netdev_set_obj_status(struct netdev *netdev_, const char *obj,
                               const char *error)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    bool changed;

    ovs_mutex_lock(&netdev->mutex);
    changed = replace_text(&netdev->obj_in_use, obj);
    changed |= replace_text(&netdev->error, error);
    ovs_mutex_unlock(&netdev->mutex);

    if (changed) {
        netdev_change_seq_changed(netdev_);
    }
}

int
dpif_xdp_netdev_set_promiscuous(struct netdev *netdev_, bool on)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    const char *name = netdev_get_name(netdev_);
    bool ours, changed;
    int error;

    ovs_mutex_lock(&netdev->mutex);
    ours = netdev->promiscuous;
    ovs_mutex_unlock(&netdev->mutex);
    if (!on && !ours) {
        return 0;
    }

    error = -oxdp_link_set_promiscuous(name, on, &changed);
    ovs_mutex_lock(&netdev->mutex);
    netdev->promiscuous = on && (ours || changed);
    ovs_mutex_unlock(&netdev->mutex);
    return error;
}

char *
dpif_xdp_netdev_get_error(const struct netdev *netdev_)
{
    char *error = NULL;

    if (dpif_xdp_netdev_is(netdev_)) {
        struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);

        ovs_mutex_lock(&netdev->mutex);
        error = nullable_xstrdup(netdev->error);
        ovs_mutex_unlock(&netdev->mutex);
    }
    return error;
}

/* What the program attached to 'netdev' saw.  Drivers do not count all of it,
 * and count its bytes in their own ways (dp/counter.h). */
static struct packets
program_received(const struct netdev_xdp *netdev)
    OVS_REQUIRES(netdev->mutex)
{
    struct packets received = { 0, 0 };
    uint64_t n[DP_N_COUNTERS];

    if (!oxdp_progs_get_counters(netdev->progs, netdev->ifindex, n)) {
        received.n_packets = oxdp_received(n);
        received.n_bytes = n[DP_COUNTER_RX_BYTES];
    }
    return received;
}

static int
kernel_received(const struct netdev_xdp *netdev, struct packets *received)
{
    struct netdev_stats stats;
    int error = netdev_linux_class.get_stats(&netdev->up.up, &stats);

    received->n_packets = error ? 0 : stats.rx_packets;
    received->n_bytes = error ? 0 : stats.rx_bytes;
    return error;
}

static void
add_difference(struct packets *sum, const struct packets *a,
               const struct packets *b)
{
    sum->n_packets += a->n_packets - b->n_packets;
    sum->n_bytes += a->n_bytes - b->n_bytes;
}

void
dpif_xdp_netdev_count_start(struct netdev *netdev_,
                            const struct oxdp_progs *progs,
                            const struct oxdp_device *device)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    struct packets kernel, program;

    dpif_xdp_netdev_watch();
    ovs_mutex_lock(&netdev->mutex);
    netdev->peer_ifindex = device->peer_ifindex;
    netdev->peer_nsid = device->peer_nsid;
    if (netdev->ifindex != device->ifindex) {
        netdev->ifindex = device->ifindex;
        memset(&netdev->ahead, 0, sizeof netdev->ahead);
        memset(&netdev->beside, 0, sizeof netdev->beside);
    }
    netdev->progs = progs;
    kernel_received(netdev, &kernel);
    program = program_received(netdev);
    add_difference(&netdev->ahead, &kernel, &program);
    ovs_mutex_unlock(&netdev->mutex);
}

void
dpif_xdp_netdev_count_stop(struct netdev *netdev_)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    struct packets kernel, program;

    ovs_mutex_lock(&netdev->mutex);
    if (netdev->progs) {
        if (!kernel_received(netdev, &kernel)) {
            program = program_received(netdev);
            add_difference(&netdev->ahead, &program, &kernel);
        } else {
            /* The device is gone.  What comes in its place counts anew. */
            netdev->ifindex = 0;
            memset(&netdev->ahead, 0, sizeof netdev->ahead);
            memset(&netdev->beside, 0, sizeof netdev->beside);
        }
        netdev->progs = NULL;
    }
    ovs_mutex_unlock(&netdev->mutex);
}

/* Adds what was sent by the shortcut to 'stats', which the kernel said a moment
 * ago: the other end has counted it, and nobody else. */
static void
add_beside(struct netdev_xdp *netdev, struct netdev_stats *stats)
    OVS_REQUIRES(netdev->mutex)
{
    struct packets all;

    if (oxdp_shortcut_counts(netdev_get_name(&netdev->up.up),
                             &all.n_packets, &all.n_bytes)) {
        netdev->beside.n_packets = all.n_packets - stats->tx_packets;
        netdev->beside.n_bytes = all.n_bytes - stats->tx_bytes;
    }
    stats->tx_packets += netdev->beside.n_packets;
    stats->tx_bytes += netdev->beside.n_bytes;
}

static int
netdev_xdp_get_stats(const struct netdev *netdev_, struct netdev_stats *stats)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    int error = netdev_linux_class.get_stats(netdev_, stats);

    if (!error) {
        ovs_mutex_lock(&netdev->mutex);
        add_beside(netdev, stats);
        if (netdev->progs) {
            struct packets program = program_received(netdev);

            stats->rx_packets = program.n_packets;
            stats->rx_bytes = program.n_bytes;
        }
        stats->rx_packets += netdev->ahead.n_packets;
        stats->rx_bytes += netdev->ahead.n_bytes;
        ovs_mutex_unlock(&netdev->mutex);
    }
    return error;
}

static struct netdev *
netdev_xdp_alloc(void)
{
    struct netdev_xdp *netdev = xzalloc(sizeof *netdev);

    ovs_mutex_init(&netdev->mutex);
    netdev->config.mode = OXDP_MODE_BEST_EFFORT;
    return &netdev->up.up;
}

static void
netdev_xdp_dealloc(struct netdev *netdev_)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);

    netdev_xdp_set_polled(netdev, false);
    free(netdev->obj);
    free(netdev->mode_in_use);
    free(netdev->hook_in_use);
    free(netdev->obj_in_use);
    free(netdev->error);
    ovs_mutex_destroy(&netdev->mutex);
    free(netdev);
}

static const char *const hook_names[] = {
    [DPIF_XDP_HOOK_AUTO] = "auto",
    [DPIF_XDP_HOOK_XDP] = "xdp",
    [DPIF_XDP_HOOK_TCX] = "tcx",
    [DPIF_XDP_HOOK_BOTH] = "both",
};

const char *
dpif_xdp_hook_to_string(enum dpif_xdp_hook hook)
{
    return hook_names[hook];
}

bool
dpif_xdp_hook_from_string(const char *s, enum dpif_xdp_hook *hook)
{
    for (size_t i = 0; i < ARRAY_SIZE(hook_names); i++) {
        if (!strcmp(s, hook_names[i])) {
            *hook = i;
            return true;
        }
    }
    return false;
}

static int
check_mtu(int mtu, char **errp)
{
    if (mtu <= (int) OXDP_MAX_MTU) {
        return 0;
    }
    *errp = xasprintf("MTU %d is too large for XDP, which needs a packet to "
                      "fit in one page: set it to at most %u", mtu,
                      OXDP_MAX_MTU);
    return EINVAL;
}

static bool
is_option(const char *key)
{
    static const char *const keys[] = {
        "xdp-mode", "xdp-hook", "xdp-obj", "xdp-peer", "n_rxq", "use-need-wakeup",
    };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (!strcmp(key, keys[i])) {
            return true;
        }
    }
    return false;
}

static int
netdev_xdp_set_config(struct netdev *netdev_, const struct smap *args,
                      char **errp)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    const char *mode_name = smap_get_def(args, "xdp-mode", "best-effort");
    const char *hook_name = smap_get_def(args, "xdp-hook", "auto");
    const char *obj = smap_get(args, "xdp-obj");
    bool no_peer = !smap_get_bool(args, "xdp-peer", true);
    const struct smap_node *node;
    enum dpif_xdp_hook hook;
    enum oxdp_mode mode;
    int mtu;

    if (!oxdp_mode_from_string(mode_name, &mode)) {
        *errp = xasprintf("%s: xdp-mode=%s: unsupported value, expected "
                          "best-effort, native-with-zerocopy, native or "
                          "generic", netdev_get_name(netdev_), mode_name);
        return EINVAL;
    }
    if (!dpif_xdp_hook_from_string(hook_name, &hook)) {
        *errp = xasprintf("%s: xdp-hook=%s: unsupported value, expected auto, "
                          "xdp, tcx or both", netdev_get_name(netdev_), hook_name);
        return EINVAL;
    }
    if (obj && !dpif_xdp_obj_is_valid(obj)) {
        *errp = xasprintf("%s: xdp-obj=%s: unsupported value, expected the "
                          "absolute path of a BPF object, or builtin",
                          netdev_get_name(netdev_), obj);
        return EINVAL;
    }
    if (!netdev_get_mtu(netdev_, &mtu)) {
        char *reason;

        if (check_mtu(mtu, &reason)) {
            *errp = xasprintf("%s: %s", netdev_get_name(netdev_), reason);
            free(reason);
            return EINVAL;
        }
    }

    ovs_mutex_lock(&netdev->mutex);
    if (netdev->config.mode != mode || netdev->config.hook != hook) {
        netdev->config.mode = mode;
        netdev->config.hook = hook;
        netdev->config.seq++;
        netdev_change_seq_changed(netdev_);
    }
    if (netdev->config.no_peer != no_peer) {
        netdev->config.no_peer = no_peer;
        netdev_change_seq_changed(netdev_);
    }
    if (replace_text(&netdev->obj, obj)) {
        netdev->config.obj_seq++;
        netdev->config.has_obj = dpif_xdp_obj_is_file(obj);
        netdev_change_seq_changed(netdev_);
    }
    ovs_mutex_unlock(&netdev->mutex);

    SMAP_FOR_EACH (node, args) {
        if (!is_option(node->key)) {
            static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);

            VLOG_WARN_RL(&rl, "%s: unknown option \"%s\" ignored",
                         netdev_get_name(netdev_), node->key);
        }
    }
    return 0;
}

static int
netdev_xdp_get_config(const struct netdev *netdev_, struct smap *args)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);

    ovs_mutex_lock(&netdev->mutex);
    if (netdev->config.mode != OXDP_MODE_BEST_EFFORT) {
        smap_add(args, "xdp-mode", oxdp_mode_to_string(netdev->config.mode));
    }
    if (netdev->config.hook != DPIF_XDP_HOOK_AUTO) {
        smap_add(args, "xdp-hook", hook_names[netdev->config.hook]);
    }
    if (netdev->obj) {
        smap_add(args, "xdp-obj", netdev->obj);
    }
    if (netdev->config.no_peer) {
        smap_add(args, "xdp-peer", "false");
    }
    ovs_mutex_unlock(&netdev->mutex);
    return 0;
}

static void
add_warning(struct ds *ds, const char *text)
{
    ds_put_format(ds, "%s%s", ds->length ? "; " : "", text);
}

/* Whether programs of others see packets at tcx before ours. */
static bool
others_first(const struct netdev_xdp *netdev)
    OVS_REQUIRES(netdev->mutex)
{
    return (netdev->progs
            && !nullable_string_is_equal(netdev->hook_in_use, "xdp")
            && oxdp_tcx_others_first(netdev->ifindex));
}

/* They come and go without a word. */
void
dpif_xdp_netdev_follow_others(struct netdev *netdev_)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    bool changed;

    ovs_mutex_lock(&netdev->mutex);
    changed = netdev->others != others_first(netdev);
    ovs_mutex_unlock(&netdev->mutex);
    if (changed) {
        netdev_change_seq_changed(netdev_);
    }
}

static void
add_warnings(struct netdev_xdp *netdev, struct smap *status)
    OVS_REQUIRES(netdev->mutex)
{
    bool on_tcx = nullable_string_is_equal(netdev->hook_in_use, "tcx");
    struct ds ds = DS_EMPTY_INITIALIZER;

    if (netdev->policed) {
        add_warning(&ds, POLICING_WARNING);
    }
    if (on_tcx && netdev->config.has_obj) {
        add_warning(&ds, OBJ_WARNING);
    }
    netdev->others = others_first(netdev);
    if (netdev->others) {
        add_warning(&ds, OTHERS_WARNING);
    }
    if (ds.length) {
        smap_add(status, "xdp-warning", ds_cstr(&ds));
    }
    ds_destroy(&ds);
}

static int
netdev_xdp_get_status(const struct netdev *netdev_, struct smap *status)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    int error = netdev_linux_class.get_status(netdev_, status);

    ovs_mutex_lock(&netdev->mutex);
    if (netdev->mode_in_use) {
        smap_add(status, "xdp-mode", netdev->mode_in_use);
        smap_add(status, "xdp-hook", netdev->hook_in_use);
    }
    if (netdev->obj_in_use) {
        smap_add(status, "xdp-obj", netdev->obj_in_use);
    }
    if (netdev->error) {
        smap_add(status, "xdp-error", netdev->error);
    }
    add_warnings(netdev, status);
    ovs_mutex_unlock(&netdev->mutex);
    return smap_is_empty(status) ? error : 0;
}

static int
netdev_xdp_set_mtu(struct netdev *netdev, int mtu)
{
    char *reason;

    if (check_mtu(mtu, &reason)) {
        VLOG_ERR("%s: %s", netdev_get_name(netdev), reason);
        free(reason);
        return EINVAL;
    }
    return netdev_linux_class.set_mtu(netdev, mtu);
}

static int
netdev_xdp_set_qos(struct netdev *netdev_, const char *type,
                   const struct smap *details)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    int error = netdev_linux_class.set_qos(netdev_, type, details);
    bool shaped = !error && type[0] && strcmp(type, "linux-noop");

    ovs_mutex_lock(&netdev->mutex);
    if (netdev->config.shaped != shaped) {
        netdev->config.shaped = shaped;
        netdev_change_seq_changed(netdev_);
    }
    ovs_mutex_unlock(&netdev->mutex);
    return error;
}

/* Linux polices between XDP and the network stack, where packets of a port
 * never come by. */
static int
netdev_xdp_set_policing(struct netdev *netdev_, uint32_t kbits_rate,
                        uint32_t kbits_burst OVS_UNUSED, uint32_t kpkts_rate,
                        uint32_t kpkts_burst OVS_UNUSED)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    bool policed = kbits_rate || kpkts_rate;
    bool changed;

    ovs_mutex_lock(&netdev->mutex);
    changed = netdev->policed != policed;
    netdev->policed = policed;
    ovs_mutex_unlock(&netdev->mutex);

    if (changed) {
        if (policed) {
            VLOG_WARN("%s: " POLICING_WARNING, netdev_get_name(netdev_));
        }
        netdev_change_seq_changed(netdev_);
    }
    return policed ? EOPNOTSUPP : 0;
}

void
dpif_xdp_netdev_register(void)
{
    netdev_xdp_class = netdev_linux_class;
    netdev_xdp_class.type = "xdp";
    netdev_xdp_class.alloc = netdev_xdp_alloc;
    netdev_xdp_class.dealloc = netdev_xdp_dealloc;
    netdev_xdp_class.set_config = netdev_xdp_set_config;
    netdev_xdp_class.get_config = netdev_xdp_get_config;
    netdev_xdp_class.get_stats = netdev_xdp_get_stats;
    netdev_xdp_class.get_status = netdev_xdp_get_status;
    netdev_xdp_class.set_mtu = netdev_xdp_set_mtu;
    netdev_xdp_class.set_policing = netdev_xdp_set_policing;
    netdev_xdp_class.set_qos = netdev_xdp_set_qos;
    netdev_xdp_class.set_miimon_interval = netdev_xdp_set_miimon_interval;
    netdev_xdp_class.wait = netdev_xdp_wait;
    netdev_register_provider(&netdev_xdp_class);
}
