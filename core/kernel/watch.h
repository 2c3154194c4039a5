/* SPDX-License-Identifier: Apache-2.0 */
/* Reports changes of devices that decide whether they take redirected frames (core/kernel/redirect.h) or peer redirect
 * (core/kernel/shortcut.h).
 *
 * The kernel sends messages about the former since Linux 6.3 (netdev generic netlink).  Before, and for the rest, this
 * uses messages about links, also of a veth's peer in its own namespace, and about qdiscs and filters. */
#ifndef OXDP_WATCH_H
#define OXDP_WATCH_H 1

#define OXDP_WATCH_FDS 2

/* 0, or a negative errno. */
struct oxdp_watch;
int oxdp_watch_open(struct oxdp_watch **ret_watch);
void oxdp_watch_close(struct oxdp_watch *);                 /* NULL is allowed. */

/* One of them becomes readable when there is something to hear; -1: there is no such descriptor. */
void oxdp_watch_fds(const struct oxdp_watch *, int ret_fds[OXDP_WATCH_FDS]);

/* What changed: device 'ifindex' of the caller's network namespace or, if that is 0, the device with that peer or, if
 * that is 0, too, any device. */
struct oxdp_watch_change {
    int ifindex;
    int peer_ifindex, peer_nsid;        /* As in struct oxdp_link. */
};

/* Receives all messages that wait. */
void oxdp_watch_run(struct oxdp_watch *, void (*changed)(const struct oxdp_watch_change *, void *aux), void *aux);

#endif /* core/kernel/watch.h */
