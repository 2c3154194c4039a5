/* SPDX-License-Identifier: Apache-2.0 */
/* The programs and maps of one datapath, for the files of this room. */
#ifndef OXDP_PROGS_STRUCT_H
#define OXDP_PROGS_STRUCT_H 1

#include <stdbool.h>
#include <stdint.h>

#include "core/programs/specialise.h"
#include "core/tables/memory.h"
#include "dp/counter.h"

struct oxdp_attachment;
struct oxdp_before;
struct oxdp_groups;
struct oxdp_pins;
struct oxdp_program;
struct oxdp_table;
struct oxdp_tcx;
struct oxdp_trace;
struct oxdp_track;
struct xdp_bpf;

struct oxdp_progs {
    struct xdp_bpf *maps;               /* Holds the maps; its own program is not loaded. */
    struct oxdp_program *programs;      /* Over them; the library's is the first. */
    struct oxdp_program **used;         /* By port number, 'max_ports': NULL for the library's. */
    struct oxdp_special special;
    struct oxdp_pins *pins;             /* NULL: not pinned. */
    char *unpinned;                     /* Why. */
    char *restart_text;                 /* Of oxdp_state_text(). */
    char *bare;                         /* Why the library's program has no flow tables; NULL: it is as configured. */
    bool taken_over;                    /* No device runs a program of the previous instance. */
    uint32_t n_cpu_ids;                 /* Numbers of CPUs are below this; not all need exist. */
    struct oxdp_memory memory;
    struct oxdp_table *table;           /* NULL: no flow tables. */

    struct oxdp_tcx *tcx;               /* core/programs/tcx.c; NULL: no port has tcx. */
    struct oxdp_trace *trace;           /* core/programs/trace.c; NULL: no trace runs. */
    struct oxdp_track *track;           /* core/programs/track.c; NULL: it does nothing now. */

    /* Ports. */
    uint32_t n_direct;                  /* Entries of the map 'ports': a power of two. */
    uint32_t *direct;                   /* The ifindex in each of them, 0 if none. */
    uint32_t max_ports;
    struct oxdp_attachment *attachments;    /* 'max_ports'; the counter slot is the index + 1. */
    struct oxdp_groups *groups;         /* core/programs/group.c. */
    uint32_t max_sockets;
    bool *socket_used;                  /* 'max_sockets'. */
    bool *can_output;                   /* 'max_ports'.  Atomic: any thread reads it. */
    bool *absent;                       /* The same. */
    bool *sends_buffers;                /* The same: core/programs/limit.c. */
    uint32_t n_send_buffers;            /* Of them.  Atomic. */

    /* Counters. */
    uint32_t n_slots;                   /* Counter slots that were ever in use. */
    struct oxdp_before *before;         /* core/programs/before.c; NULL: nothing to adopt. */
    uint64_t retired[DP_N_COUNTERS];    /* Counted by ports before those that have their slots now. */
};

#endif /* core/programs/progs_struct.h */
