/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of each table of a datapath when another process takes over from this one, or from one that crashed.
 *
 * Each table has a name (oxdp_memory_name()), a layout (a hash of its BTF) and a rule.  Those that are not made anew
 * are pinned as "state-<name>-<layout>" (core/programs/pin.h).  A process with the same name, layout and size takes
 * them over; one with another layout does not, and says so.
 *
 * Another table of state, of connections for example, is a row of BPF_TABLES (bpf/constant.h) and a case in
 * oxdp_state_rule().  If it is adopted, then
 *
 *   - programs of both processes write to it until the devices are taken over: as several CPUs do;
 *   - what userspace writes must be right whenever it is killed: the word that makes an entry valid is written last,
 *     and cleared first;
 *   - no entry refers to a table that is made anew (flows), nor to numbers that Open vSwitch gives out anew. */
#ifndef OXDP_STATE_H
#define OXDP_STATE_H 1

#include "bpf/constant.h"

struct oxdp_progs;

enum oxdp_restart {
    OXDP_RESTART_ANEW,          /* Made empty.  The programs before keep theirs as long as they run. */
    OXDP_RESTART_READ,          /* Made empty, but what the one before holds is added to it: core/programs/before.h. */
    OXDP_RESTART_ADOPT,         /* The one before itself: programs of both processes, and both processes, share it. */
};

enum oxdp_restart oxdp_state_rule(enum bpf_table);

/* Before the tables are made: opens those of the previous instance that this one adopts.  'fd' gets file descriptors
 * for the caller to close, -1 where there is none of our layout. */
void oxdp_state_open(const struct oxdp_progs *progs, int fd[BPF_N_TABLES]);

/* Opens the table of the previous instance that has the layout and the size of table 'i' of 'progs'.  Returns a file
 * descriptor, or -ENOENT or another negative errno. */
int oxdp_state_open_old(const struct oxdp_progs *progs, enum bpf_table i);

/* Pins the tables for the process after this one.  0 or a negative errno. */
int oxdp_state_pin(const struct oxdp_progs *progs);

/* For people, malloc'd: which tables of the previous instance go on, and which do not, with the reason.  NULL: it left
 * none. */
char *oxdp_state_text(const struct oxdp_progs *progs);

#endif /* core/programs/state.h */
