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
    unsigned int to_ifindex;        /* --to: forward's output; the other device of turns; of servers (generate). */
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
    const char *tunnel;             /* Generate frames in a tunnel: "vxlan", "geneve", "gre"; NULL: in none. */
    uint8_t endpoints;              /* Flows come from so many ends of tunnels. */
    bool new_flows;                 /* Ping: a new source port for each request. */
    bool tcp;                       /* Ping: over TCP.  Generate: TCP connections, both sides. */
    bool generic;                   /* Attach in generic mode: behind the driver, on skbs. */
    bool plain;                     /* Generate: as a program that is attached to no device, see generate.c. */
    bool back;                      /* Socket: send frames back instead of dropping them. */
    uint32_t call;                  /* Generate: frames per test run. */
    uint8_t receivers;              /* Generate: flows are spread over so many destination addresses. */
    uint32_t n_entries;
    char *entries[BENCH_MAX_PORTS]; /* l2: "VLAN,MAC,DEVICE". */
    const char *hold;               /* Generate: a device without traffic; NULL: the loopback device. */
    const char *file;               /* busy: where to count. */
    const char *dev, *to;           /* Names of --dev and --to, which the command 'vm' creates. */
};

/* Sends frames into --dev as if it received them from a wire; prints what it sent. */
int bench_run_generate(const struct bench_options *);

/* Sends test runs into --dev and into --to by turns; prints pairs of how long each took, nanoseconds a frame.  Where
 * switch and sink run on the generator's CPU, that is the time of all of it; and two runs that follow each other by
 * milliseconds find the machine equally fast. */
int bench_run_turns(const struct bench_options *);

/* Drops and counts what --dev receives; each line on standard input is answered with the counts. */
int bench_run_sink(const struct bench_options *);

/* Redirects what --dev receives to --to, until standard input ends. */
int bench_run_forward(const struct bench_options *);

/* Forwards between the devices of --entry by VLAN and destination MAC address, until standard input ends. */
int bench_run_l2(const struct bench_options *);

/* Sends what --dev receives back out of it, addresses exchanged, until standard input ends. */
int bench_run_return(const struct bench_options *);

/* The least that an AF_XDP program can do on --dev: drops, or with --back returns, frames without a look at
 * them, spinning.  Each line on standard input is answered with the count. */
int bench_run_socket(const struct bench_options *);

/* Makes tap devices --dev and --to, and copies frames from one to the other, as a machine behind them would. */
int bench_run_vm(const struct bench_options *);

/* A user process that never rests, of a lower priority than its parent; counts its rounds in --file. */
int bench_run_busy(const struct bench_options *);

/* Sends UDP datagrams back to where they came from, until standard input ends. */
int bench_run_echo(const struct bench_options *);

/* Sends back what TCP connections to it send, one connection after the other, until standard input ends. */
int bench_run_serve(const struct bench_options *);

/* Measures how long --address takes to answer requests; prints percentiles. */
int bench_run_ping(const struct bench_options *);

/* Sends UDP datagrams to --address as fast as it can, frames of --size bytes; prints how many. */
int bench_run_flood(const struct bench_options *);

/* Counts the datagrams that come to --address; each line on standard input is answered with the count. */
int bench_run_drain(const struct bench_options *);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t bench_now(void);

/* Reads "02:00:00:00:00:01". */
bool bench_parse_mac(const char *s, uint8_t mac[6]);

/* Moves the calling thread to 'cpu' (-1: leaves it alone).  Returns 0, or a negative errno after having
 * said so. */
int bench_move_to_cpu(int cpu);

#endif /* bench/gen/traffic.h */
