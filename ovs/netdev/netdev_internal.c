/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/netdev/netdev_internal.h"

#include <errno.h>

#include "core/kernel/internal.h"
#include "core/multi_buffer.h"
#include "netdev-linux-private.h"
#include "netdev-provider.h"
#include "openvswitch/vlog.h"
#include "openvswitch/shash.h"
#include "ovs-thread.h"
#include "ovs/base/locks.h"
#include "simap.h"
#include "smap.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(netdev_internal);

#define MTU_WARNING                                                         \
    "packets of the host of more than %u bytes are lost: lower the MTU"

/* Open vSwitch's class with some members replaced, as in netdev_xdp.c. */
static struct netdev_class class;

const char *
dpif_xdp_internal_type(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;
    static bool supported;

    if (ovsthread_once_start(&once)) {
        char *why = NULL;

        supported = oxdp_internal_supported(&why);
        if (!supported) {
            VLOG_INFO("internal ports are taps, served by the engine: %s",
                      why ? why : "not supported");
        }
        free(why);
        ovsthread_once_done(&once);
    }
    return supported ? class.type : "tap";
}

bool
dpif_xdp_internal_is(const struct netdev *netdev)
{
    return netdev_get_class(netdev) == &class;
}

int
dpif_xdp_internal_open_device(const struct netdev *netdev,
                              struct netdev **devicep)
{
    char device[IF_NAMESIZE];

    oxdp_internal_device(netdev_get_name(netdev), device);
    return netdev_open(device, "xdp", devicep);
}

static bool
is_open(const char *name)
{
    struct netdev *netdev = netdev_from_name(name);
    bool is = netdev && dpif_xdp_internal_is(netdev);

    netdev_close(netdev);
    return is;
}

void
dpif_xdp_internal_sweep(void)
{
    unsigned int n = oxdp_internal_sweep(is_open);

    if (n) {
        VLOG_INFO("removed %u internal port%s that a previous instance left",
                  n, n == 1 ? "" : "s");
    }
}

/* Hardware addresses that Open vSwitch has given interfaces, by name a struct
 * eth_addr; and the last MTU of each, if it was refused. */
static struct ovs_mutex names_mutex OVS_ACQ_AFTER(dpif_xdp_netdev_mutex)
    = OVS_MUTEX_INITIALIZER;
static struct shash addresses OVS_GUARDED_BY(names_mutex)
    = SHASH_INITIALIZER(&addresses);
static struct simap refused_mtus OVS_GUARDED_BY(names_mutex)
    = SIMAP_INITIALIZER(&refused_mtus);

static int
set_etheraddr(struct netdev *netdev, const struct eth_addr mac)
{
    int error = netdev_linux_class.set_etheraddr(netdev, mac);

    if (!error) {
        ovs_mutex_lock(&names_mutex);
        free(shash_replace(&addresses, netdev_get_name(netdev),
                           xmemdup(&mac, sizeof mac)));
        ovs_mutex_unlock(&names_mutex);
    }
    return error;
}

int
dpif_xdp_internal_restore(struct netdev *netdev, char **errorp)
{
    int error = -oxdp_internal_create(netdev_get_name(netdev), errorp);
    const struct eth_addr *mac;

    if (!error) {
        ovs_mutex_lock(&names_mutex);
        mac = shash_find_data(&addresses, netdev_get_name(netdev));
        if (mac) {
            netdev_linux_class.set_etheraddr(netdev, *mac);
        }
        ovs_mutex_unlock(&names_mutex);
    }
    return error;
}

static int
construct(struct netdev *netdev)
{
    char *text = NULL;
    int error;

    /* bridge.c says it; the kernel would say that a number is out of range. */
    if (strlen(netdev_get_name(netdev)) >= IFNAMSIZ) {
        return ENAMETOOLONG;
    }
    error = -oxdp_internal_create(netdev_get_name(netdev), &text);
    if (error) {
        VLOG_ERR("%s: %s", netdev_get_name(netdev),
                 text ? text : ovs_strerror(error));
        free(text);
        return error;
    }

    /* The interface may have got another name or network namespace under a
     * previous instance.  Open vSwitch accepts such an absence only of its own
     * internal devices. */
    netdev->netdev_class = &netdev_internal_class;
    error = netdev_linux_class.construct(netdev);
    netdev->netdev_class = &class;
    if (error) {
        oxdp_internal_delete(netdev_get_name(netdev));
    }
    return error;
}

static void
destruct(struct netdev *netdev)
{
    netdev_linux_class.destruct(netdev);
    oxdp_internal_delete(netdev_get_name(netdev));
    ovs_mutex_lock(&names_mutex);
    free(shash_find_and_delete(&addresses, netdev_get_name(netdev)));
    simap_find_and_delete(&refused_mtus, netdev_get_name(netdev));
    ovs_mutex_unlock(&names_mutex);
}

/* The host's sent packets are the switch's received ones.  What the switch
 * sends is dropped by the port's device or by the interface. */
static int
get_stats(const struct netdev *netdev, struct netdev_stats *stats)
{
    struct netdev_stats host;
    int error = netdev_linux_class.get_stats(netdev, &host);
    struct netdev *device;

    memset(stats, 0, sizeof *stats);
    stats->rx_packets = host.tx_packets;
    stats->rx_bytes = host.tx_bytes;
    stats->rx_errors = host.tx_errors;
    stats->rx_dropped = host.tx_dropped;
    stats->tx_packets = host.rx_packets;
    stats->tx_bytes = host.rx_bytes;
    stats->tx_errors = host.rx_errors;
    stats->tx_dropped = host.rx_dropped;
    stats->multicast = host.multicast;
    stats->collisions = host.collisions;
    if (!dpif_xdp_internal_open_device(netdev, &device)) {
        struct netdev_stats its;

        if (!netdev_get_stats(device, &its)) {
            stats->tx_dropped += its.tx_dropped;
        }
        netdev_close(device);
    }
    return error;
}

/* Whether the interface has its name and is in this network namespace.  Else
 * some of lib/netdev-linux.c's questions would end in warnings. */
static bool
is_here(const struct netdev *netdev)
{
    return if_nametoindex(netdev_get_name(netdev));
}

static int
get_features(const struct netdev *netdev, enum netdev_features *current,
             enum netdev_features *advertised,
             enum netdev_features *supported, enum netdev_features *peer)
{
    return (is_here(netdev)
            ? netdev_linux_class.get_features(netdev, current, advertised,
                                              supported, peer)
            : ENODEV);
}

/* Says in 'status' what is wrong with the MTU that is, or was asked for. */
static void
add_warning(const struct netdev *netdev, struct smap *status)
{
    unsigned int refused;
    int mtu;

    ovs_mutex_lock(&names_mutex);
    refused = simap_get(&refused_mtus, netdev_get_name(netdev));
    ovs_mutex_unlock(&names_mutex);
    if (netdev_get_mtu(netdev, &mtu)) {
        return;
    }
    if (mtu > (int) oxdp_max_internal_mtu()) {
        smap_add_format(status, "xdp-warning", MTU_WARNING,
                        oxdp_max_internal_mtu());
    } else if (refused && netdev->mtu_user_config) {
        smap_add_format(status, "xdp-warning", "mtu_request=%u is too large: "
                        "at most %u, the MTU stays %d", refused,
                        oxdp_max_internal_mtu(), mtu);
    }
}

/* What of the port stands in the status of its device, and what users may have
 * set wrong themselves. */
static int
get_status(const struct netdev *netdev, struct smap *status)
{
    static const char *const keys[] = { "xdp-hook", "xdp-error" };
    bool here = is_here(netdev);
    int error = here ? netdev_linux_class.get_status(netdev, status) : ENODEV;
    struct netdev *device;

    if (here) {
        add_warning(netdev, status);
    }
    if (!dpif_xdp_internal_open_device(netdev, &device)) {
        struct smap its = SMAP_INITIALIZER(&its);

        netdev_get_status(device, &its);
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
            const char *value = smap_get(&its, keys[i]);

            if (value) {
                smap_add(status, keys[i], value);
            }
        }
        smap_destroy(&its);
        netdev_close(device);
    }
    return smap_is_empty(status) ? error : 0;
}

/* Notes that 'mtu' was refused, 0: none was.  Who looks at a change of the
 * device may ask for the same again: that is no news. */
static void
note_refused(struct netdev *netdev, unsigned int mtu)
{
    const char *name = netdev_get_name(netdev);
    bool changed;

    ovs_mutex_lock(&names_mutex);
    changed = simap_get(&refused_mtus, name) != mtu;
    if (changed) {
        simap_put(&refused_mtus, name, mtu);
    }
    ovs_mutex_unlock(&names_mutex);
    if (changed) {
        netdev_change_seq_changed(netdev);
    }
}

static int
set_mtu(struct netdev *netdev, int mtu)
{
    bool refused = mtu > (int) oxdp_max_internal_mtu();

    note_refused(netdev, refused ? mtu : 0);
    if (refused) {
        VLOG_ERR("%s: MTU %d is too large: set it to at most %u",
                 netdev_get_name(netdev), mtu, oxdp_max_internal_mtu());
        return EINVAL;
    }
    return netdev_linux_class.set_mtu(netdev, mtu);
}

void
dpif_xdp_internal_register(void)
{
    class = netdev_linux_class;
    class.type = "xdp-internal";
    class.construct = construct;
    class.destruct = destruct;
    class.get_features = get_features;
    class.get_stats = get_stats;
    class.get_status = get_status;
    class.set_etheraddr = set_etheraddr;
    class.set_mtu = set_mtu;
    netdev_register_provider(&class);
}
