/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a Linux network device, and the few things the switch must set on it. */
#ifndef OXDP_DEVICE_H
#define OXDP_DEVICE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oxdp_device {
    int ifindex;
    uint32_t n_rx_queues;       /* In use; at least 1. */
    uint32_t n_tx_queues;       /* In use; at least 1.  A socket of a queue beyond these cannot send. */
    uint32_t max_rx_queues;     /* That it may come to use. */
    uint32_t mtu;               /* Bytes. */
    char driver[32];            /* ethtool's driver name, "" if unknown. */
    int peer_ifindex;           /* Of a veth: the peer, as in struct oxdp_link; else 0. */
    int peer_nsid;
    bool peer_xdp;              /* Of a veth: its peer runs a native XDP program. */
    bool vnet_hdr;              /* Of a tap: what its reader sends may have GSO and CHECKSUM_PARTIAL. */
    bool guest_offloads;        /* Of a tap: its reader takes CHECKSUM_PARTIAL packets, so it leaves its own checksums
                                 * to others, and segmentation as well. */
    bool rx_buffers;            /* XDP programs get frames of several buffers, on a kernel that has such. */
    bool zerocopy;              /* The driver has zero-copy AF_XDP, or the kernel does not say. */
    bool local_stack;           /* Frames of this machine's or a guest's stack may be CHECKSUM_PARTIAL:
                                 * veth, tun/tap, virtio and other virtual drivers. */
};

/* Reads the facts of device 'ifname' in the caller's network namespace.  0, or negative errno. */
int oxdp_device_get(const char *ifname, struct oxdp_device *ret_dev);

/* 'n_rx_queues' of device 'ifname', 0 if it cannot be asked. */
uint32_t oxdp_device_rx_queues(const char *ifname);

/* Whether device 'ifname' is a veth with 'peer_xdp'; false also if it cannot be asked. */
bool oxdp_device_peer_has_xdp(const char *ifname);

/* Whether device 'ifname' is a tap with 'guest_offloads', which a reader turns on and off as its guest's driver comes
 * and goes; false also if it cannot be asked. */
bool oxdp_device_has_guest_offloads(const char *ifname);

/* Whether packets come from the device with GSO or CHECKSUM_PARTIAL.  A veth delivers such packets of sockets, unless
 * the container runs an XDP program of its own.  A tap delivers such packets of a guest with offloads, which the kernel
 * drops at XDP (docs/decisions/0015-guests.md). */
bool oxdp_device_sends_unfinished(const struct oxdp_device *device);

/* Turns off the offloads that stand between XDP and the packets of device 'ifname': on the device, what
 * takes VLAN tags out of frames or joins frames; on the peer of a veth, offloads of checksums, VLAN tags
 * and segmentation, and the same on the device if an XDP program on that peer gets
 * what is sent there.  On a veth's peer it also turns GRO on: without it the kernel drops
 * frames redirected into the veth.  The peer may live in any network namespace that a process or a
 * mount (/run/netns, /run/docker/netns ...) keeps alive. Adds to '*undo', NULL at first, the features to
 * restore, also on failure.  Returns 0; -ENOENT if the peer's namespace was not found; -ENODEV if there is
 * no such device; or another negative errno.  So do the others. */
struct oxdp_offload_undo;
int oxdp_offloads_off(const char *ifname, struct oxdp_offload_undo **undo);

/* Only turns on GRO on a veth's peer. */
int oxdp_offloads_poll(const char *ifname, struct oxdp_offload_undo **undo);

/* For a veth at tcx: turns on its GRO, without which the kernel drops frames that an XDP program on the peer redirects
 * into it (packets of sockets hardly pay for that).  If a program runs there, turns off offloads of packets for it. */
int oxdp_offloads_serve(const char *ifname, struct oxdp_offload_undo **undo);

/* When XDP has left a veth on which oxdp_offloads_serve() was called: turns its offloads on again. */
int oxdp_offloads_after_xdp(const char *ifname, struct oxdp_offload_undo **undo);

/* When an XDP program has come to the peer of the veth 'ifname' ('peer_xdp'), or gone: turns the offloads of packets
 * for it off, or on again, as one of these would have done. */
int oxdp_offloads_follow_peer(const char *ifname, bool peer_xdp, struct oxdp_offload_undo **undo);

/* Turns on again what oxdp_offloads_off() turned off, as far as the devices still exist, and frees 'undo'.
 * NULL is allowed. */
void oxdp_offloads_restore(struct oxdp_offload_undo *undo);

/* Bytes of the longest frame that device 'ifindex' hands to XDP programs, with Ethernet header and two VLAN tags: that
 * of its MTU where a packet that is longer has GSO, because a veth and a tap with a virtio header take no others; else
 * that of the largest MTU that a port at XDP may have. */
uint32_t oxdp_device_longest_frame(int ifindex);

#endif /* core/kernel/device.h */
