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
    uint32_t mtu;               /* Bytes. */
    char driver[32];            /* ethtool's driver name, "" if unknown. */
    int peer_ifindex;           /* Of a veth: the other end, as in struct oxdp_link; else 0. */
    int peer_nsid;
    bool peer_xdp;              /* Of a veth: the other end runs an XDP program in the driver. */
    bool guest_offloads;        /* Of a tap: its reader takes packets whose checksums are left to it, so it leaves its own to
                                 * others, and segmentation as well. */
    bool zerocopy;              /* The driver has zero-copy AF_XDP, or nobody knows whether it has. */
    bool local_stack;           /* Frames may come from this machine's or a guest's stack with checksums left to
                                 * offload: veth, tun/tap, virtio and other virtual drivers. */
};

/* Reads the facts of device 'ifname' in the caller's network namespace.  0, or negative errno. */
int oxdp_device_get(const char *ifname, struct oxdp_device *ret_dev);

/* Whether device 'ifname' is a veth with 'peer_xdp'; false also if it cannot be asked. */
bool oxdp_device_peer_has_xdp(const char *ifname);

/* Whether device 'ifname' is a tap with 'guest_offloads', which a reader turns on and off as its guest's driver comes and
 * goes; false also if it cannot be asked. */
bool oxdp_device_has_guest_offloads(const char *ifname);

/* Whether what comes from the device has been left unfinished by a network stack: segments and checksums are to be made of it
 * later.  So it is with packets of sockets, which come through a veth, unless the container runs an XDP program of its own and
 * means frames; and with those of a guest that has offloads, which the kernel loses at XDP (docs/decisions/0015-guests.md). */
bool oxdp_device_sends_unfinished(const struct oxdp_device *device);

/* Largest MTU (bytes) that a port in this UMEM design can have: frame size less headroom, record, Ethernet
 * header and two VLAN tags. */
#define OXDP_MAX_MTU 3498u

/* Largest MTU of a port with tcx: the upcall pair's frames have the record in them, too. */
#define OXDP_MAX_TCX_MTU 3450u

/* Bytes of a frame with MTU 'mtu': with Ethernet header and two VLAN tags. */
#define OXDP_FRAME_LEN(mtu) ((mtu) + 14u + 2 * 4u)

/* Turns off the offloads that stand between XDP and the packets of device 'ifname': on the device, what
 * takes VLAN tags out of frames or joins frames; on the peer of a veth, what leaves packets unfinished
 * (checksums, VLAN tags, segmentation), and the same on the device if a program on that peer is to see
 * what is sent there.  On a veth's peer it also turns GRO on: without it frames
 * redirected into the veth would vanish.  The peer may live in any network namespace that a process or a
 * mount (/run/netns, /run/docker/netns ...) keeps alive. Adds to '*undo', NULL at first, what there is to
 * restore, also on failure.  Returns 0; -ENOENT if the peer's namespace was not found; -ENODEV if there is
 * no such device; or another negative errno.  So do the others. */
struct oxdp_offload_undo;
int oxdp_offloads_off(const char *ifname, struct oxdp_offload_undo **undo);

/* Only turns on GRO on a veth's peer. */
int oxdp_offloads_poll(const char *ifname, struct oxdp_offload_undo **undo);

/* For a veth at tcx: turns on its GRO, without which frames that a program at the other end redirects into it would
 * vanish (packets of sockets pay hardly anything for that), and, if a program runs there, off what leaves packets for it
 * unfinished. */
int oxdp_offloads_serve(const char *ifname, struct oxdp_offload_undo **undo);

/* When XDP has gone from a veth that oxdp_offloads_serve() has seen to: turns on again what stood between them. */
int oxdp_offloads_after_xdp(const char *ifname, struct oxdp_offload_undo **undo);

/* When an XDP program has come to the other end of the veth 'ifname' ('peer_xdp'), or gone: has what is sent there
 * finished, or leaves that to be done later again, as one of these would have done. */
int oxdp_offloads_follow_peer(const char *ifname, bool peer_xdp, struct oxdp_offload_undo **undo);

/* Turns on again what oxdp_offloads_off() turned off, as far as the devices still exist, and frees 'undo'.
 * NULL is allowed. */
void oxdp_offloads_restore(struct oxdp_offload_undo *undo);

#endif /* core/kernel/device.h */
