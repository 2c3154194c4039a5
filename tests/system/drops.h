/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What drops.bpf.c counts. */
#ifndef TESTS_DROPS_H
#define TESTS_DROPS_H 1

#include <linux/types.h>

#define DROP_PACKET 0
#define DROP_REDIRECT 1
#define DROP_TRANSMIT 2
#define DROP_EXCEPTION 3
#define DROP_AGAIN 4            /* A packet, right behind a DROP_REDIRECT of its device: both are it, at generic XDP. */

struct drop {
    __u32 kind;
    __u32 netns;            /* Inode number of the device's network namespace, 0: none. */
    __u32 reason;           /* Of a packet: enum skb_drop_reason; of an exception: enum xdp_action; else an errno. */
    __u32 pad;
    __u64 location;         /* Of a packet: an address in the kernel. */
    char device[16];
};

#endif /* tests/system/drops.h */
