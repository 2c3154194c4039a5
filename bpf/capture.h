/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What bpf/capture.bpf.c and core/capture/ share.
 *
 * events  PERF_EVENT_ARRAY.  Each sample is a struct bpf_captured, then the first 'captured' bytes of the packet.
 *         Written by the programs, read by core/capture/capture.c.  Full: the sample is lost, and perf counts it.
 * rooms   PERCPU_ARRAY of one struct bpf_capture_room.  Written by the programs; core/capture/capture.c reads
 *         'beyond'. */
#ifndef BPF_CAPTURE_H
#define BPF_CAPTURE_H 1

#include <linux/types.h>

/* How much of a packet a filter can look at. */
#define BPF_CAPTURE_HEAD 256

/* Instructions that have no effect, one behind the other, which a filter replaces. */
#define BPF_CAPTURE_FILTER_ROOM 2048

enum bpf_capture_direction {
    BPF_CAPTURE_IN,
    BPF_CAPTURE_OUT,
};

struct bpf_captured {
    __u64 time;         /* CLOCK_MONOTONIC, in ns. */
    __u32 length;       /* Of the packet, in bytes. */
    __u32 captured;     /* Of them. */
    __u32 group;        /* Id of the devmap whose devices all get it; 0: it is for the captured device. */
    __u32 direction;    /* enum bpf_capture_direction. */
};

struct bpf_capture_head {
    __u8 bytes[BPF_CAPTURE_HEAD];
};

struct bpf_capture_room {
    struct bpf_capture_head head;
    __u64 second;       /* The one in which 'n' packets were copied. */
    __u64 n;
    __u64 beyond;       /* Packets that matched, but were more than what is copied in a second. */
};

#endif /* bpf/capture.h */
