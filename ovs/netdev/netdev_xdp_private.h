/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the netdev_xdp*.c. */
#ifndef DPIF_XDP_NETDEV_PRIVATE_H
#define DPIF_XDP_NETDEV_PRIVATE_H 1

#include "ovs/netdev/netdev_xdp.h"

#include "netdev-linux-private.h"
#include "ovs-thread.h"
#include "ovs/base/locks.h"

struct packets {
    uint64_t n_packets, n_bytes;
};

struct netdev_xdp {
    struct netdev_linux up;

    struct ovs_mutex mutex;             /* dpif_xdp_netdev_mutex. */
    struct dpif_xdp_netdev_config config
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    char *obj                           /* options:xdp-obj. */
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    char *mode_in_use OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    char *hook_in_use OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    char *obj_in_use OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    char *error                         /* Why the port does not work as
                                         * asked. */
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    char *option_error                  /* Values that are not allowed. */
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    char *warnings[DPIF_XDP_N_WARNINGS] OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    bool promiscuous                    /* Made so by us. */
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    bool others                         /* Users are warned of programs. */
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    bool polled                         /* Counted in 'n_polled'. */
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    struct netdev_xdp_rxq *rxq;         /* Of the packet socket, if there is
                                         * one: its user's. */

    /* Received packets: those that the kernel counted, or, while there are
     * 'progs', their program; plus 'ahead'. */
    const struct oxdp_progs *progs OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    int ifindex                         /* The last that was counted. */
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    struct packets ahead                /* Modulo 2**64. */
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    int peer_ifindex                    /* Of 'ifindex', as in struct
                                         * oxdp_device. */
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    int peer_nsid OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    struct packets beside               /* Sent by peer redirect, past
                                         * 'ifindex', as last known. */
        OVS_GUARDED_BY(dpif_xdp_netdev_mutex);

    /* Packets that its port could not send: dpif_xdp_netdev_set_port(). */
    uint64_t (*send_drops)(void *port) OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
    void *port OVS_GUARDED_BY(dpif_xdp_netdev_mutex);
};

/* Open vSwitch's class with some members replaced (netdev_xdp.c).  The rest,
 * among it 'run' by which lib/netdev-linux.c knows its own, stays. */
extern struct netdev_class netdev_xdp_class;

static inline struct netdev_xdp *
netdev_xdp_cast(const struct netdev *netdev)
{
    ovs_assert(dpif_xdp_netdev_is(netdev));
    return CONTAINER_OF(netdev, struct netdev_xdp, up.up);
}

static inline void
netdev_xdp_lock(const struct netdev_xdp *netdev)
    OVS_ACQUIRES(dpif_xdp_netdev_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&netdev->mutex);
}

static inline void
netdev_xdp_unlock(const struct netdev_xdp *netdev)
    OVS_RELEASES(dpif_xdp_netdev_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&netdev->mutex);
}

/* Counts 'netdev' among those whose link is polled, or not. */
void netdev_xdp_set_polled(struct netdev_xdp *netdev, bool polled)
    OVS_REQUIRES(dpif_xdp_netdev_mutex);

/* Replaces '*text' by a copy of 'new', which may be NULL.  Returns whether
 * that is a change. */
bool netdev_xdp_replace_text(char **text, const char *new);

/* As the members of struct netdev_class. */
int netdev_xdp_set_config(struct netdev *, const struct smap *args,
                          char **errp);
int netdev_xdp_get_config(const struct netdev *, struct smap *args);
int netdev_xdp_get_status(const struct netdev *, struct smap *status);
int netdev_xdp_rxq_construct(struct netdev_rxq *);
void netdev_xdp_rxq_destruct(struct netdev_rxq *);
int netdev_xdp_rxq_recv(struct netdev_rxq *, struct dp_packet_batch *,
                        int *qfill);
int netdev_xdp_set_miimon_interval(struct netdev *, long long int interval);
void netdev_xdp_wait(const struct netdev_class *);

#endif /* ovs/netdev/netdev_xdp_private.h */
