/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/watch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/kernel/netdev_genl.h"
#include "core/kernel/netlink_private.h"

struct oxdp_watch {
    int links;                  /* A socket of rtnetlink. */
    int features;               /* One of generic netlink; -1: the kernel does not tell. */
    uint16_t family;            /* That of 'features'. */
};

static int listen_to(int protocol, const uint32_t groups[], size_t n, bool everywhere);
static void take(const struct oxdp_watch *watch, int fd, void (*changed)(const struct oxdp_watch_change *, void *aux),
                 void *aux);
static ssize_t receive(int fd, union oxdp_nl_reply *message, int *ret_nsid);
static bool read_change(const struct oxdp_watch *watch, bool is_link, const struct nlmsghdr *message, int nsid,
                        struct oxdp_watch_change *ret_change);

int oxdp_watch_open(struct oxdp_watch **ret_watch)
{
    static const uint32_t groups[] = { RTNLGRP_LINK, RTNLGRP_TC };
    struct oxdp_watch *watch = calloc(1, sizeof *watch);
    uint32_t group;
    int err;

    if (!watch) {
        return -ENOMEM;
    }
    watch->links = listen_to(NETLINK_ROUTE, groups, 2, true);
    watch->features = oxdp_netdev_family(&watch->family, &group) ? -1 : listen_to(NETLINK_GENERIC, &group, 1, false);
    err = watch->links < 0 ? watch->links : watch->features < -1 ? watch->features : 0;
    if (err) {
        oxdp_watch_close(watch);
        return err;
    }
    *ret_watch = watch;
    return 0;
}

void oxdp_watch_close(struct oxdp_watch *watch)
{
    if (watch) {
        if (watch->links >= 0) {
            close(watch->links);
        }
        if (watch->features >= 0) {
            close(watch->features);
        }
        free(watch);
    }
}

void oxdp_watch_fds(const struct oxdp_watch *watch, int ret_fds[OXDP_WATCH_FDS])
{
    ret_fds[0] = watch->links;
    ret_fds[1] = watch->features;
}

void oxdp_watch_run(struct oxdp_watch *watch, void (*changed)(const struct oxdp_watch_change *, void *aux), void *aux)
{
    take(watch, watch->links, changed, aux);
    if (watch->features >= 0) {
        take(watch, watch->features, changed, aux);
    }
}

/* A socket that receives messages to 'groups'; with 'everywhere' from all namespaces that have a number in this one.
 * Or a negative errno. */
static int listen_to(int protocol, const uint32_t groups[], size_t n, bool everywhere)
{
    const struct sockaddr_nl any = { .nl_family = AF_NETLINK };     /* Without an address a socket receives nothing. */
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    int one = 1, err;

    if (fd < 0) {
        return -errno;
    }
    err = bind(fd, (const struct sockaddr *) &any, sizeof any)
        || (everywhere && setsockopt(fd, SOL_NETLINK, NETLINK_LISTEN_ALL_NSID, &one, sizeof one)) ? -errno : 0;
    for (size_t i = 0; !err && i < n; i++) {
        err = setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[i], sizeof groups[i]) ? -errno : 0;
    }
    if (err) {
        close(fd);
    }
    return err ? err : fd;
}

static void take(const struct oxdp_watch *watch, int fd, void (*changed)(const struct oxdp_watch_change *, void *aux),
                 void *aux)
{
    union oxdp_nl_reply message;

    for (;;) {
        struct oxdp_watch_change change = { .peer_nsid = -1 };
        int nsid = -1;
        ssize_t n = receive(fd, &message, &nsid);

        if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && errno == ENOBUFS) {
            changed(&change, aux);      /* Some were lost. */
        } else if (n < 0) {
            return;                     /* Nothing more waits. */
        } else if (NLMSG_OK(&message.header, n)
                   && read_change(watch, fd == watch->links, &message.header, nsid, &change)) {
            changed(&change, aux);
        }
    }
}

/* Receives one message, and the number of the namespace that it is about, if it is not this one. */
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

/* False if 'message' does not matter. */
static bool read_change(const struct oxdp_watch *watch, bool is_link, const struct nlmsghdr *message, int nsid,
                        struct oxdp_watch_change *ret_change)
{
    if (!is_link) {
        ret_change->ifindex = message->nlmsg_type == watch->family ? oxdp_netdev_changed(message) : 0;
        return ret_change->ifindex;
    }
    switch (message->nlmsg_type) {
    case RTM_NEWLINK:
        ret_change->peer_ifindex = ((const struct ifinfomsg *) NLMSG_DATA(message))->ifi_index;
        ret_change->peer_nsid = nsid;
        return true;
    case RTM_NEWQDISC:
    case RTM_DELQDISC:
    case RTM_NEWTFILTER:
    case RTM_DELTFILTER:
        ret_change->ifindex = ((const struct tcmsg *) NLMSG_DATA(message))->tcm_ifindex;
        if (ret_change->ifindex == (int) TCM_IFINDEX_MAGIC_BLOCK) {
            ret_change->ifindex = 0;    /* Filters that several devices share. */
        }
        return nsid < 0;
    default:
        return false;
    }
}
