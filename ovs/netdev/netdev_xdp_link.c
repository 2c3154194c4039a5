/* SPDX-License-Identifier: Apache-2.0 */
/* Watches devices: links that are polled, and whether programs may redirect to
 * them. */
#include <config.h>

#include "ovs/netdev/netdev_xdp_private.h"

#include <poll.h>
#include <string.h>

#include "core/kernel/watch.h"
#include "ovs/netdev/link_poll.h"
#include "netdev-provider.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/shash.h"
#include "openvswitch/vlog.h"
#include "ovs-thread.h"
#include "timer.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(netdev_xdp_link);

/* Reports changes of devices that packets are sent to.  Made for the first
 * device; of the main thread. */
static struct oxdp_watch *watch;

/* Devices whose link is polled (other_config:bond-detect-mode=miimon). */
static atomic_count n_polled = ATOMIC_COUNT_INIT(0);

void
netdev_xdp_set_polled(struct netdev_xdp *netdev, bool polled)
{
    if (polled && !netdev->polled) {
        atomic_count_inc(&n_polled);
    } else if (!polled && netdev->polled) {
        atomic_count_dec(&n_polled);
    }
    netdev->polled = polled;
}

int
netdev_xdp_set_miimon_interval(struct netdev *netdev_, long long int interval)
{
    struct netdev_xdp *netdev = netdev_xdp_cast(netdev_);

    netdev_xdp_lock(netdev);
    netdev_xdp_set_polled(netdev, interval > 0);
    netdev_xdp_unlock(netdev);
    return netdev_linux_class.set_miimon_interval(netdev_, interval);
}

/* Polls the link of 'netdev' if that is due, and wakes up for the next. */
static void
poll_link(struct netdev_linux *netdev)
{
    ovs_mutex_lock(&netdev->mutex);
    if (netdev->miimon_interval > 0) {
        if (timer_expired(&netdev->miimon_timer)) {
            bool up = dpif_xdp_link_is_up(netdev_get_name(&netdev->up));

            if (netdev->miimon != up) {
                netdev->miimon = up;
                netdev_change_seq_changed(&netdev->up);
            }
            timer_set_duration(&netdev->miimon_timer,
                               netdev->miimon_interval);
        }
        timer_wait(&netdev->miimon_timer);
    }
    ovs_mutex_unlock(&netdev->mutex);
}

bool
dpif_xdp_netdev_watch(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;

    if (ovsthread_once_start(&once)) {
        int error = -oxdp_watch_open(&watch);

        if (error) {
            VLOG_INFO("cannot watch whether devices take redirected "
                      "frames (%s)", ovs_strerror(error));
        }
        ovsthread_once_done(&once);
    }
    return watch;
}

/* Changes that were received together. */
#define MAX_CHANGES 32
struct changes {
    struct oxdp_watch_change list[MAX_CHANGES];
    size_t n;                           /* Beyond MAX_CHANGES: anybody's. */
};

static void
add_change(const struct oxdp_watch_change *change, void *changes_)
{
    struct changes *changes = changes_;

    for (size_t i = 0; i < MIN(changes->n, MAX_CHANGES); i++) {
        if (!memcmp(&changes->list[i], change, sizeof *change)) {
            return;
        }
    }
    if (changes->n < MAX_CHANGES) {
        changes->list[changes->n] = *change;
    }
    changes->n++;
}

static bool
is_changed(const struct changes *changes, const struct netdev_xdp *netdev)
    OVS_REQUIRES(dpif_xdp_netdev_mutex)
{
    for (size_t i = 0; i < MIN(changes->n, MAX_CHANGES); i++) {
        const struct oxdp_watch_change *change = &changes->list[i];

        if (change->ifindex ? change->ifindex == netdev->ifindex
            : change->peer_ifindex
            ? (change->peer_ifindex == netdev->peer_ifindex
               && change->peer_nsid == netdev->peer_nsid)
            : true) {
            return true;
        }
    }
    return changes->n > MAX_CHANGES;
}

/* Makes the datapath look again at devices that may have changed. */
static void
follow_changes(const struct netdev_class *class)
{
    struct changes changes = { .n = 0 };
    int fds[OXDP_WATCH_FDS];

    oxdp_watch_run(watch, add_change, &changes);
    if (changes.n) {
        struct shash devices = SHASH_INITIALIZER(&devices);
        struct shash_node *node;

        netdev_get_devices(class, &devices);
        SHASH_FOR_EACH (node, &devices) {
            struct netdev_xdp *netdev = netdev_xdp_cast(node->data);
            bool changed;

            netdev_xdp_lock(netdev);
            changed = is_changed(&changes, netdev);
            netdev_xdp_unlock(netdev);
            if (changed) {
                netdev_change_seq_changed(&netdev->up.up);
                poll_immediate_wake();
            }
            netdev_close(&netdev->up.up);
        }
        shash_destroy(&devices);
    }
    oxdp_watch_fds(watch, fds);
    for (size_t i = 0; i < OXDP_WATCH_FDS; i++) {
        if (fds[i] >= 0) {
            poll_fd_wait(fds[i], POLLIN);
        }
    }
}

/* lib/netdev-linux.c polls the links of its own classes only, in 'run', which
 * cannot be replaced.  Thus what is due is done here, before waiting. */
void
netdev_xdp_wait(const struct netdev_class *class)
{
    netdev_linux_class.wait(class);
    if (watch) {
        follow_changes(class);
    }
    if (atomic_count_get(&n_polled)) {
        struct shash devices = SHASH_INITIALIZER(&devices);
        struct shash_node *node;

        netdev_get_devices(class, &devices);
        SHASH_FOR_EACH (node, &devices) {
            struct netdev *netdev = node->data;

            poll_link(netdev_linux_cast(netdev));
            netdev_close(netdev);
        }
        shash_destroy(&devices);
    }
}
