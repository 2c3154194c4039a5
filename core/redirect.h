/* SPDX-License-Identifier: Apache-2.0 */
/* Whether devices take frames that programs redirect to them, and hearing when that changes.
 *
 * The kernel says so since Linux 6.3 (netdev generic netlink, NETDEV_XDP_ACT_NDO_XMIT).  Before, a veth is
 * known to take them while its peer has GRO on, and other devices with native XDP are believed to. */
#ifndef OXDP_REDIRECT_H
#define OXDP_REDIRECT_H 1

#include <stdbool.h>

/* Whether device 'ifname' takes redirected frames now. */
bool oxdp_redirect_works(const char *ifname);

/* Makes device 'ifname', which is up and has a carrier, take redirected frames, as far as it lets itself be
 * made: GRO that was turned off on a veth's peer stays off.  To be called again after the carrier was lost.
 * 0: it takes them; or a negative errno: -ENOENT if it is a veth whose peer was not found, -EOPNOTSUPP if
 * it does not take them. */
int oxdp_redirect_prepare(const char *ifname);

/* Hears of changes.  0, or a negative errno. */
struct oxdp_redirect_watch;
int oxdp_redirect_watch_open(struct oxdp_redirect_watch **ret_watch);
void oxdp_redirect_watch_close(struct oxdp_redirect_watch *);       /* NULL is allowed. */

/* Becomes readable when there is something to hear. */
int oxdp_redirect_watch_fd(const struct oxdp_redirect_watch *);

/* Whose answer may have changed: of device 'ifindex' of the caller's network namespace or, if that is 0, of
 * the device with that peer or, if that is 0, too, of any device. */
struct oxdp_redirect_change {
    int ifindex;
    int peer_ifindex, peer_nsid;        /* As in struct oxdp_link. */
};

/* Takes all that there is to hear. */
void oxdp_redirect_watch_run(struct oxdp_redirect_watch *,
                             void (*changed)(const struct oxdp_redirect_change *, void *aux), void *aux);

#endif /* core/redirect.h */
