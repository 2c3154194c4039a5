/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/netdev/netdev_xdp_private.h"

#include <ctype.h>
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

int
dpif_xdp_netdev_set_promiscuous(struct netdev *netdev_, bool on)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    const char *name = netdev_get_name(netdev_);
    bool ours, changed;
    int error;

    netdev_xdp_lock(netdev);
    ours = netdev->promiscuous;
    netdev_xdp_unlock(netdev);
    if (!on && !ours) {
        return 0;
    }

    error = -oxdp_link_set_promiscuous(name, on, &changed);
    netdev_xdp_lock(netdev);
    netdev->promiscuous = on && (ours || changed);
    netdev_xdp_unlock(netdev);
    return error;
}

/* Packets that reached the program on 'netdev'.  Drivers do not count all of
 * them, and count bytes in their own ways (dp/counter.h). */
static struct packets
program_received(const struct netdev_xdp *netdev)
    OVS_REQUIRES(dpif_xdp_netdev_mutex)
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
    netdev_xdp_lock(netdev);
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
    netdev_xdp_unlock(netdev);
}

void
dpif_xdp_netdev_count_stop(struct netdev *netdev_)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    struct packets kernel, program;

    netdev_xdp_lock(netdev);
    if (netdev->progs) {
        if (!kernel_received(netdev, &kernel)) {
            program = program_received(netdev);
            add_difference(&netdev->ahead, &program, &kernel);
        } else {
            /* The device is gone.  A new one counts from 0. */
            netdev->ifindex = 0;
            memset(&netdev->ahead, 0, sizeof netdev->ahead);
            memset(&netdev->beside, 0, sizeof netdev->beside);
        }
        netdev->progs = NULL;
    }
    netdev_xdp_unlock(netdev);
}

/* Adds packets sent by peer redirect to 'stats', which the kernel has just
 * reported: only the peer has counted them. */
static void
add_beside(struct netdev_xdp *netdev, struct netdev_stats *stats)
    OVS_REQUIRES(dpif_xdp_netdev_mutex)
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

void
dpif_xdp_netdev_set_port(struct netdev *netdev_,
                         uint64_t (*send_drops)(void *port), void *port)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);

    netdev_xdp_lock(netdev);
    netdev->send_drops = send_drops;
    netdev->port = port;
    netdev_xdp_unlock(netdev);
}

/* Calls without the lock, which comes after those of ports.  Ports end in the
 * main thread, which alone asks for statistics. */
static uint64_t
send_drops(const struct netdev *netdev_)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    uint64_t (*count)(void *);
    void *port;

    netdev_xdp_lock(netdev);
    count = netdev->send_drops;
    port = netdev->port;
    netdev_xdp_unlock(netdev);
    return count ? count(port) : 0;
}

static int
netdev_xdp_get_stats(const struct netdev *netdev_, struct netdev_stats *stats)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    int error = netdev_linux_class.get_stats(netdev_, stats);

    if (!error) {
        netdev_xdp_lock(netdev);
        add_beside(netdev, stats);
        if (netdev->progs) {
            struct packets program = program_received(netdev);

            stats->rx_packets = program.n_packets;
            stats->rx_bytes = program.n_bytes;
        }
        stats->rx_packets += netdev->ahead.n_packets;
        stats->rx_bytes += netdev->ahead.n_bytes;
        netdev_xdp_unlock(netdev);
        stats->tx_dropped += send_drops(netdev_);
    }
    return error;
}

/* What the program attached to 'netdev' did with what it received, under names
 * that begin with "ovs_rx_": the Interface's statistics have them. */
static int
netdev_xdp_get_custom_stats(const struct netdev *netdev_,
                            struct netdev_custom_stats *custom)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    uint64_t n[DP_N_COUNTERS];
    bool counted;

    netdev_xdp_lock(netdev);
    counted = (netdev->progs
               && !oxdp_progs_get_counters(netdev->progs, netdev->ifindex, n));
    netdev_xdp_unlock(netdev);

    custom->size = 0;
    custom->counters = xcalloc(DP_N_COUNTERS, sizeof *custom->counters);
    for (int i = 0; counted && i < DP_N_COUNTERS; i++) {
        struct netdev_custom_counter *counter;

        if (i == DP_COUNTER_RX_BYTES) {
            continue;                   /* netdev_xdp_get_stats() has it. */
        }
        counter = &custom->counters[custom->size++];
        snprintf(counter->name, sizeof counter->name, "ovs_rx_%s",
                 oxdp_counter_name(i));
        for (char *p = counter->name; *p; p++) {
            *p = tolower((unsigned char) *p);
        }
        counter->value = n[i];
    }
    return 0;
}

static struct netdev *
netdev_xdp_alloc(void)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared yet. */
{
    struct netdev_xdp *netdev = xzalloc(sizeof *netdev);

    ovs_mutex_init(&netdev->mutex);
    netdev->config.mode = OXDP_MODE_BEST_EFFORT;
    return &netdev->up.up;
}

static void
netdev_xdp_dealloc(struct netdev *netdev_)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared any more. */
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);

    netdev_xdp_set_polled(netdev, false);
    free(netdev->obj);
    free(netdev->mode_in_use);
    free(netdev->hook_in_use);
    free(netdev->obj_in_use);
    free(netdev->error);
    free(netdev->option_error);
    for (size_t i = 0; i < DPIF_XDP_N_WARNINGS; i++) {
        free(netdev->warnings[i]);
    }
    ovs_mutex_destroy(&netdev->mutex);
    free(netdev);
}

static int
netdev_xdp_set_qos(struct netdev *netdev_, const char *type,
                   const struct smap *details)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);
    int error = netdev_linux_class.set_qos(netdev_, type, details);
    bool shaped = !error && type[0] && strcmp(type, "linux-noop");

    netdev_xdp_lock(netdev);
    if (netdev->config.shaped != shaped) {
        netdev->config.shaped = shaped;
        netdev_change_seq_changed(netdev_);
    }
    netdev_xdp_unlock(netdev);
    return error;
}

/* Linux polices after XDP, before the network stack.  Packets of a port with
 * XDP do not get there. */
static int
netdev_xdp_set_policing(struct netdev *netdev, uint32_t kbits_rate,
                        uint32_t kbits_burst OVS_UNUSED, uint32_t kpkts_rate,
                        uint32_t kpkts_burst OVS_UNUSED)
{
    bool policed = kbits_rate || kpkts_rate;

    dpif_xdp_netdev_set_warning(netdev, DPIF_XDP_WARNING_POLICING,
                                policed ? POLICING_WARNING : NULL);
    return policed ? EOPNOTSUPP : 0;
}

static int
netdev_xdp_set_mtu(struct netdev *netdev, int mtu)
{
    int error = netdev_linux_class.set_mtu(netdev, mtu);
    char *text = (!error ? NULL
                  : xasprintf("mtu_request=%d: the device refuses it (%s), "
                              "its MTU stays as it is", mtu,
                              ovs_strerror(error)));

    dpif_xdp_netdev_set_warning(netdev, DPIF_XDP_WARNING_MTU_REQUEST, text);
    free(text);
    return error;
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
    netdev_xdp_class.get_custom_stats = netdev_xdp_get_custom_stats;
    netdev_xdp_class.get_status = netdev_xdp_get_status;
    netdev_xdp_class.set_mtu = netdev_xdp_set_mtu;
    netdev_xdp_class.set_policing = netdev_xdp_set_policing;
    netdev_xdp_class.set_qos = netdev_xdp_set_qos;
    netdev_xdp_class.rxq_construct = netdev_xdp_rxq_construct;
    netdev_xdp_class.rxq_destruct = netdev_xdp_rxq_destruct;
    netdev_xdp_class.rxq_recv = netdev_xdp_rxq_recv;
    netdev_xdp_class.set_miimon_interval = netdev_xdp_set_miimon_interval;
    netdev_xdp_class.wait = netdev_xdp_wait;
    netdev_register_provider(&netdev_xdp_class);
}
