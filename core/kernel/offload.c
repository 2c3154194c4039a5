/* SPDX-License-Identifier: Apache-2.0 */
/* Offloads with which XDP does not see packets as they are on a wire: turned off while a device is a port, and on
 * again afterwards. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/kernel/device.h"
#include "core/kernel/ethtool.h"
#include "core/kernel/netlink.h"
#include "core/kernel/peer.h"

struct oxdp_offload_undo {
    char ifname[IF_NAMESIZE];
    int ifindex;
    int peer_ifindex;                   /* 0: no veth, or nothing was changed there. */
    struct oxdp_features own, peer;     /* Turned off. */
    struct oxdp_features finished;      /* Turned off on the device for an XDP program on the peer. */
    struct oxdp_features own_on, peer_on;       /* Turned on. */
};

/* Offloads of the sender: the packet reaches XDP before a device does what was left to it.
 * Segmentation goes off with the checksums (net/core/dev.c, netdev_fix_features and harmonize_features). */
static const char *const unfinished[] = { OXDP_OFFLOADS_TO_FINISH, NULL };

/* Offloads of the receiver: the device changes or joins frames before XDP sees them. */
static const char *const changing[] = {
    "rx-vlan-hw-parse", "rx-vlan-stag-hw-parse", "rx-lro", "rx-gro-hw", NULL,
};

/* With this a veth takes frames that are redirected to its peer (core/kernel/redirect.c), or that the peer
 * redirects. */
static const char *const polling[] = { "rx-gro", NULL };

static int open_undo(const char *ifname, struct oxdp_link *ret_link, struct oxdp_offload_undo **ret_undo);
static int own_switch(const struct oxdp_link *link, const char *const names[], bool on, struct oxdp_features *changed);
static int own_restore(const struct oxdp_link *link, struct oxdp_features *changed);
static int follow_peer(const struct oxdp_link *link, bool peer_xdp, struct oxdp_offload_undo *undo);
static int peer_switch(const struct oxdp_link *link, const char *const names[], struct oxdp_offload_undo *undo);
static int peer_restore(const struct oxdp_link *link, struct oxdp_offload_undo *undo);
static int own_socket(void);

int oxdp_offloads_off(const char *ifname, struct oxdp_offload_undo **undo)
{
    struct oxdp_link link;
    int err, peer_err = open_undo(ifname, &link, undo);

    if (peer_err) {
        return peer_err;
    }
    err = own_switch(&link, changing, false, &(*undo)->own);
    if (!err && oxdp_device_peer_has_xdp(ifname)) {
        err = own_switch(&link, unfinished, false, &(*undo)->finished);
    }
    peer_err = peer_switch(&link, unfinished, *undo);
    return peer_err ? peer_err : err;
}

int oxdp_offloads_poll(const char *ifname, struct oxdp_offload_undo **undo)
{
    static const char *const nothing[] = { NULL };
    struct oxdp_link link;
    int err = open_undo(ifname, &link, undo);

    return err ? err : peer_switch(&link, nothing, *undo);
}

int oxdp_offloads_serve(const char *ifname, struct oxdp_offload_undo **undo)
{
    struct oxdp_link link;
    int err = open_undo(ifname, &link, undo);

    if (err || strcmp(link.kind, "veth")) {
        return err;
    }
    err = own_switch(&link, polling, true, &(*undo)->own_on);
    return err ? err : follow_peer(&link, oxdp_device_peer_has_xdp(ifname), *undo);
}

int oxdp_offloads_after_xdp(const char *ifname, struct oxdp_offload_undo **undo)
{
    struct oxdp_link link;
    int peer_err, err = open_undo(ifname, &link, undo);

    if (err) {
        return err;
    }
    err = own_restore(&link, &(*undo)->own);
    peer_err = peer_restore(&link, *undo);
    return err ? err : peer_err;
}

int oxdp_offloads_follow_peer(const char *ifname, bool peer_xdp, struct oxdp_offload_undo **undo)
{
    struct oxdp_link link;
    int err = open_undo(ifname, &link, undo);

    return err ? err : follow_peer(&link, peer_xdp, *undo);
}

/* Turns the offloads of packets for an XDP program on the peer off, or on again. */
static int follow_peer(const struct oxdp_link *link, bool peer_xdp, struct oxdp_offload_undo *undo)
{
    return peer_xdp ? own_switch(link, unfinished, false, &undo->finished) : own_restore(link, &undo->finished);
}

/* '*ret_undo' is NULL or of the same device. */
static int open_undo(const char *ifname, struct oxdp_link *ret_link, struct oxdp_offload_undo **ret_undo)
{
    struct oxdp_offload_undo *undo;
    int err = oxdp_link_get(ifname, ret_link);

    if (err || *ret_undo) {
        return err;
    }
    undo = calloc(1, sizeof *undo);
    if (!undo) {
        return -ENOMEM;
    }
    snprintf(undo->ifname, sizeof undo->ifname, "%s", ifname);
    undo->ifindex = ret_link->ifindex;
    *ret_undo = undo;
    return 0;
}

void oxdp_offloads_restore(struct oxdp_offload_undo *undo)
{
    char peer_name[IF_NAMESIZE];
    struct oxdp_link link;
    int fd;

    if (undo && !oxdp_link_get(undo->ifname, &link) && link.ifindex == undo->ifindex) {
        fd = own_socket();
        if (fd >= 0) {
            oxdp_ethtool_features_restore(fd, link.name, &undo->own, false);
            oxdp_ethtool_features_restore(fd, link.name, &undo->finished, false);
            oxdp_ethtool_features_restore(fd, link.name, &undo->own_on, true);
            close(fd);
        }
        /* The namespace is looked up again: a descriptor kept would have kept a deleted container's
         * namespace. */
        fd = undo->peer_ifindex && link.peer_ifindex == undo->peer_ifindex ? oxdp_peer_open(&link, peer_name) : -1;
        if (fd >= 0) {
            oxdp_ethtool_features_restore(fd, peer_name, &undo->peer, false);
            oxdp_ethtool_features_restore(fd, peer_name, &undo->peer_on, true);
            close(fd);
        }
    }
    free(undo);
}

/* Switches features of the device with socket 'fd', and notes in 'changed' those that were otherwise. */
static int switch_more(int fd, const char *ifname, const char *const names[], bool on, struct oxdp_features *changed)
{
    struct oxdp_features now = { { 0 } };
    int err = oxdp_ethtool_features_switch(fd, ifname, names, on, &now);

    for (size_t i = 0; i < sizeof now.bits / sizeof now.bits[0]; i++) {
        changed->bits[i] |= now.bits[i];
    }
    return err;
}

/* A device without the ethtool interface has no features to switch. */
static int own_switch(const struct oxdp_link *link, const char *const names[], bool on, struct oxdp_features *changed)
{
    int fd = own_socket();
    int err = fd < 0 ? fd : switch_more(fd, link->name, names, on, changed);

    if (fd >= 0) {
        close(fd);
    }
    return err == -EOPNOTSUPP ? 0 : err;
}

/* Turns on again what was turned off. */
static int own_restore(const struct oxdp_link *link, struct oxdp_features *changed)
{
    int fd = own_socket();
    int err = fd < 0 ? fd : oxdp_ethtool_features_restore(fd, link->name, changed, false);

    if (fd >= 0) {
        close(fd);
    }
    *changed = (struct oxdp_features) { { 0 } };
    return err;
}

/* Turns 'names' off on the peer, and GRO on, with which redirected frames are taken. */
static int peer_switch(const struct oxdp_link *link, const char *const names[], struct oxdp_offload_undo *undo)
{
    char name[IF_NAMESIZE];
    int fd, err;

    if (strcmp(link->kind, "veth") || !link->peer_ifindex) {
        return 0;
    }
    fd = oxdp_peer_open(link, name);
    if (fd < 0) {
        return fd;
    }
    undo->peer_ifindex = link->peer_ifindex;
    err = switch_more(fd, name, names, false, &undo->peer);
    if (!err) {
        err = switch_more(fd, name, polling, true, &undo->peer_on);
    }
    close(fd);
    return err;
}

/* Turns on again what was turned off on the peer.  GRO stays on: redirected frames are still taken. */
static int peer_restore(const struct oxdp_link *link, struct oxdp_offload_undo *undo)
{
    char name[IF_NAMESIZE];
    int err, fd;

    if (!undo->peer_ifindex || link->peer_ifindex != undo->peer_ifindex) {
        return 0;
    }
    fd = oxdp_peer_open(link, name);
    if (fd < 0) {
        return fd;
    }
    err = oxdp_ethtool_features_restore(fd, name, &undo->peer, false);
    undo->peer = (struct oxdp_features) { { 0 } };
    close(fd);
    return err;
}

static int own_socket(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}
