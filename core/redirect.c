/* SPDX-License-Identifier: Apache-2.0 */
#include "core/redirect.h"

#include <errno.h>
#include <net/if.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/device.h"
#include "core/ethtool.h"
#include "core/netdev_genl.h"
#include "core/netlink.h"
#include "core/netlink_private.h"
#include "core/peer.h"

struct oxdp_redirect_watch {
    int fd;
    uint16_t family;            /* Of generic netlink; 0: 'fd' is of rtnetlink. */
};

/* A veth receives redirected frames only if its peer polls, which it does with an XDP program or with GRO
 * (drivers/net/veth.c, veth_xdp_xmit; since Linux 5.13).  Else they vanish. */
static const char *const polling[] = { "rx-gro", NULL };

static int prepare_veth(const struct oxdp_link *link);
static bool peer_polls(const struct oxdp_link *link);
static ssize_t receive(int fd, union oxdp_nl_reply *message, int *ret_nsid);
static bool read_change(const struct oxdp_redirect_watch *watch, const struct nlmsghdr *message,
                        struct oxdp_redirect_change *change);

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

/* Without the family, changes of features are heard as changes of links, those of a veth's peer from the
 * namespace where it lives. */
int oxdp_redirect_watch_open(struct oxdp_redirect_watch **ret_watch)
{
    struct oxdp_redirect_watch *watch = calloc(1, sizeof *watch);
    const struct sockaddr_nl any = { .nl_family = AF_NETLINK };     /* Who has no address hears nothing. */
    uint32_t group = RTNLGRP_LINK;
    int one = 1, err = 0;

    if (!watch) {
        return -ENOMEM;
    }
    oxdp_netdev_family(&watch->family, &group);
    watch->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
                       watch->family ? NETLINK_GENERIC : NETLINK_ROUTE);
    if (watch->fd < 0
        || bind(watch->fd, (const struct sockaddr *) &any, sizeof any)
        || (!watch->family
            && setsockopt(watch->fd, SOL_NETLINK, NETLINK_LISTEN_ALL_NSID, &one, sizeof one))
        || setsockopt(watch->fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group)) {
        err = -errno;
        oxdp_redirect_watch_close(watch);
        return err;
    }
    *ret_watch = watch;
    return 0;
}

void oxdp_redirect_watch_close(struct oxdp_redirect_watch *watch)
{
    if (watch) {
        if (watch->fd >= 0) {
            close(watch->fd);
        }
        free(watch);
    }
}

int oxdp_redirect_watch_fd(const struct oxdp_redirect_watch *watch)
{
    return watch->fd;
}

void oxdp_redirect_watch_run(struct oxdp_redirect_watch *watch,
                             void (*changed)(const struct oxdp_redirect_change *, void *aux), void *aux)
{
    union oxdp_nl_reply message;

    for (;;) {
        struct oxdp_redirect_change change = { .peer_nsid = -1 };
        ssize_t n = receive(watch->fd, &message, &change.peer_nsid);

        if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && errno == ENOBUFS) {
            changed(&change, aux);      /* Some were lost. */
        } else if (n < 0) {
            return;                     /* Nothing more waits. */
        } else if (NLMSG_OK(&message.header, n) && read_change(watch, &message.header, &change)) {
            changed(&change, aux);
        }
    }
}

/* Receives one message, and the number of the namespace it tells of, if it is not this one. */
static ssize_t receive(int fd, union oxdp_nl_reply *message, int *ret_nsid)
{
    union {
        struct cmsghdr header;
        uint8_t space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec io = { .iov_base = message, .iov_len = sizeof *message };
    struct msghdr msg = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control,
    };
    ssize_t n = recvmsg(fd, &msg, 0);

    for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level == SOL_NETLINK && c->cmsg_type == NETLINK_LISTEN_ALL_NSID) {
            memcpy(ret_nsid, CMSG_DATA(c), sizeof *ret_nsid);
        }
    }
    return n;
}

static bool read_change(const struct oxdp_redirect_watch *watch, const struct nlmsghdr *message,
                        struct oxdp_redirect_change *change)
{
    if (watch->family && message->nlmsg_type == watch->family) {
        change->ifindex = oxdp_netdev_changed(message);
    } else if (!watch->family && message->nlmsg_type == RTM_NEWLINK) {
        change->peer_ifindex = ((const struct ifinfomsg *) NLMSG_DATA(message))->ifi_index;
    }
    return change->ifindex || change->peer_ifindex;
}
