/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the packets that programs of the switch receive from a device, or redirect to it: what packet sockets do
 * not see.  The programs of the switch and their places stay as they are; all ends when the process does.  One
 * thread. */
#ifndef OXDP_CAPTURE_H
#define OXDP_CAPTURE_H 1

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oxdp_capture;

struct oxdp_capture_config {
    int ifindex;                        /* In the network namespace of the caller. */
    bool in, out;                       /* What it receives, what it sends. */
    uint32_t snaplen;                   /* Bytes that are copied of a packet, at most. */
    uint32_t rate;                      /* Packets that are copied in a second on each CPU, at most. */
    const struct sock_filter *filter;   /* For Ethernet frames.  Packets that it returns 0 for are not copied. */
    size_t n_filter;                    /* Instructions; 0: all packets. */
};

struct oxdp_captured {
    uint64_t time;                      /* CLOCK_REALTIME, in ns. */
    uint32_t length;                    /* Of the packet, and */
    uint32_t captured;                  /* of 'data'. */
    const void *data;
};
typedef void oxdp_capture_fn(const struct oxdp_captured *, void *aux);

/* Begins.  0, or a negative errno with a sentence in '*ret_error' (malloc'd).  oxdp_capture_close() takes NULL, too. */
int oxdp_capture_open(const struct oxdp_capture_config *, struct oxdp_capture **ret_capture, char **ret_error);
void oxdp_capture_close(struct oxdp_capture *);

/* Looks for programs that came since the last call, because the switch has exchanged its own: to be called a few times
 * a second.  Returns whether the device has an XDP program whose packets are copied, so that packet sockets see only
 * what it leaves over.  '*ret_error', NULL before, is a sentence (malloc'd) when, for the first time, a program cannot
 * be looked at. */
bool oxdp_capture_follow(struct oxdp_capture *, char **ret_error);

/* How many programs of the switch are looked at. */
size_t oxdp_capture_n_programs(const struct oxdp_capture *);

/* Becomes readable when there are packets, and oxdp_capture_read() calls 'each' for them. */
int oxdp_capture_fd(const struct oxdp_capture *);
void oxdp_capture_read(struct oxdp_capture *, oxdp_capture_fn *each, void *aux);

/* Packets that matched and were not copied: more than 'rate', or the ring was full. */
struct oxdp_capture_missed {
    uint64_t beyond_rate;
    uint64_t unread;
};
struct oxdp_capture_missed oxdp_capture_missed(const struct oxdp_capture *);

#endif /* core/capture/capture.h */
