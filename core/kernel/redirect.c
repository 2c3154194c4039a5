/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/redirect.h"

#include <errno.h>
#include <net/if.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/kernel/device.h"
#include "core/kernel/ethtool.h"
#include "core/kernel/netdev_genl.h"
#include "core/kernel/netlink.h"
#include "core/kernel/netlink_private.h"
#include "core/kernel/peer.h"

/* A veth receives redirected frames only if its peer polls, which it does with an XDP program or with GRO
 * (drivers/net/veth.c, veth_xdp_xmit; since Linux 5.13).  Else the kernel drops them. */
static const char *const polling[] = { "rx-gro", NULL };

static int prepare_veth(const struct oxdp_link *link);
static bool peer_polls(const struct oxdp_link *link);

bool oxdp_redirect_works(const char *ifname)
{
    struct oxdp_link link;
    uint64_t features;

    if (oxdp_link_get(ifname, &link)) {
        return false;
    }
    if (!oxdp_netdev_features(link.ifindex, &features)) {
        return features & OXDP_NETDEV_REDIRECT_TARGET;
    }
    return strcmp(link.kind, "veth") || oxdp_device_peer_has_xdp(ifname) || peer_polls(&link);
}

int oxdp_redirect_prepare(const char *ifname)
{
    struct oxdp_link link;
    uint64_t features;
    int err = oxdp_link_get(ifname, &link);

    if (err) {
        return err;
    }

    bool known = !oxdp_netdev_features(link.ifindex, &features);

    if (known && features & OXDP_NETDEV_REDIRECT_TARGET) {
        return 0;
    }
    if (!strcmp(link.kind, "veth")) {
        err = prepare_veth(&link);
        known = known && !err && !oxdp_netdev_features(link.ifindex, &features);
    }
    return err ? err : known && !(features & OXDP_NETDEV_REDIRECT_TARGET) ? -EOPNOTSUPP : 0;
}

/* The kernel notes that a veth takes redirected frames only at the moment when GRO comes on while its peer
 * is up (drivers/net/veth.c, veth_set_features). */
static int prepare_veth(const struct oxdp_link *link)
{
    struct oxdp_features changed;
    char name[IF_NAMESIZE];
    int fd = oxdp_peer_open(link, name);
    bool on;
    int err;

    if (fd < 0) {
        return fd;
    }
    err = oxdp_ethtool_feature_get(fd, name, polling[0], &on);
    if (!err && on) {
        err = oxdp_ethtool_features_switch(fd, name, polling, false, &changed);
        err = err ? err : oxdp_ethtool_features_switch(fd, name, polling, true, &changed);
    } else if (!err) {
        err = -EOPNOTSUPP;
    }
    close(fd);
    return err;
}

static bool peer_polls(const struct oxdp_link *link)
{
    char name[IF_NAMESIZE];
    int fd = oxdp_peer_open(link, name);
    bool on = false;

    if (fd >= 0) {
        if (oxdp_ethtool_feature_get(fd, name, polling[0], &on)) {
            on = false;
        }
        close(fd);
    }
    return on;
}
