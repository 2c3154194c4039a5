/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What bench_ct.c and the program 'talk' share: frames that differ in the address of the host that began to talk. */
#ifndef TESTS_BPF_PIPELINE_TALK_H
#define TESTS_BPF_PIPELINE_TALK_H 1

struct talk {
    __u32 next;                 /* The next frame's number: its host has the address 10.0.0.0 and that. */
    __u32 host_ofs;             /* Where the frame has that address, */
    __u32 check_ofs;            /* and where its transport checksum. */
    __u32 dry;                  /* Frames are written, and go nowhere. */
    __u32 in_port;
    __u16 ip_check, check;      /* Checksums of frame number 0, memory order. */
    __u64 addr;                 /* Addresses and ports of frame number 0: NAT has changed those of the one before. */
    __u32 ports;
};

#endif /* tests/bpf_pipeline/talk.h */
