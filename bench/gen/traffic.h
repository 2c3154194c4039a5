/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of bench-traffic.  Each returns a process exit status: 0 done, 1 failed, 2 wrong usage. */
#ifndef BENCH_TRAFFIC_H
#define BENCH_TRAFFIC_H 1

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "frame.h"

struct bench_options {
    const char *command;
    unsigned int ifindex;           /* --dev: where the command acts. */
    unsigned int to_ifindex;        /* --to: forward's output. */
    uint32_t flows;
    uint64_t rate;                  /* Packets per second; 0: as many as possible. */
    double seconds;
    int cpu;                        /* -1: wherever the scheduler puts us. */
    uint32_t size;                  /* Frame bytes without the frame check sequence. */
    uint32_t batch;                 /* Frames per softirq round. */
    uint8_t eth_src[6], eth_dst[6];
    struct in_addr address;         /* Whom to ping, or as whom to answer. */
    uint16_t vlan;                  /* VLAN tag of generated frames; 0: none. */
    bool ip6;                       /* Generate IPv6. */
    bool new_flows;                 /* Ping: a new source port for each request. */
};

/* Sends frames into --dev as if it received them from a wire on its far end; prints what it sent. */
int bench_run_generate(const struct bench_options *);

/* Drops and counts what --dev receives; each line on standard input is answered with the counts. */
int bench_run_sink(const struct bench_options *);

/* Redirects what --dev receives to --to, until standard input ends. */
int bench_run_forward(const struct bench_options *);

/* Sends UDP datagrams back to where they came from, until standard input ends. */
int bench_run_echo(const struct bench_options *);

/* Measures how long --address takes to answer UDP requests; prints percentiles. */
int bench_run_ping(const struct bench_options *);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t bench_now(void);

/* Moves the calling thread to 'cpu' (-1: leaves it alone).  Returns 0, or a negative errno after having
 * said so. */
int bench_move_to_cpu(int cpu);

#endif /* bench/gen/traffic.h */
