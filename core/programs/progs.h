/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF programs of one datapath: load, tell them the ports, attach.
 *
 * Programs and maps live as long as the struct; if they have a name, then they are pinned (core/programs/pin.h) and live
 * on, attached, when the process is killed.
 *
 * Threads.  Most of this is for control: one thread at a time.  Threads that install flows may call, at any time between
 * load and unload,
 *
 *     oxdp_progs_capability(), oxdp_progs_can_output(), oxdp_progs_is_absent(), oxdp_progs_table(),
 *     oxdp_progs_require() (these threads one at a time),
 *     oxdp_tcx_capability(), oxdp_tcx_can_output() of core/programs/tcx.h, and core/programs/group.h.
 *
 * They may hear of a change of an output, or of a port's program, late.  So control changes it first, then puts the flows
 * that it concerns again, under a lock that whoever installs a flow holds from asking to inserting: a flow that was decided
 * by the old answer is among those, and one that is decided after that hears the new one. */
#ifndef OXDP_PROG_H
#define OXDP_PROG_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dp/capability.h"
#include "dp/counter.h"
#include "dp/omit.h"

struct oxdp_flow;
struct oxdp_progs;
struct oxdp_table;

enum oxdp_mode {                /* As options:xdp-mode of Open vSwitch's afxdp netdev. */
    OXDP_MODE_BEST_EFFORT,      /* native-with-zerocopy, else native, else generic. */
    OXDP_MODE_NATIVE_ZEROCOPY,
    OXDP_MODE_NATIVE,
    OXDP_MODE_GENERIC,
};
const char *oxdp_mode_to_string(enum oxdp_mode mode);
bool oxdp_mode_from_string(const char *s, enum oxdp_mode *ret_mode);

struct oxdp_progs_config {
    uint32_t max_ports;         /* Ports; those that programs can send to have numbers below this. */
    uint32_t max_sockets;
    uint32_t n_flows;           /* Flows in the tables; 0: none, every frame goes up. */
    const char *name;           /* Of the datapath, to pin under; NULL: nothing is pinned. */
};

/* Loads the programs (embedded in the library as a BPF skeleton).  On failure returns a negative errno and
 * a sentence that says what to do in '*ret_error' (malloc'd; may be NULL on success). */
int oxdp_progs_load(const struct oxdp_progs_config *, struct oxdp_progs **ret_progs, char **ret_error);
void oxdp_progs_unload(struct oxdp_progs *progs);   /* Detaches everything.  NULL is allowed. */

/* The folder in which programs and links are pinned, so that they go on when this process ends; NULL if they are not.  Why
 * they are not although they have a name; else NULL.  Both as long as 'progs'. */
const char *oxdp_progs_pinned(const struct oxdp_progs *progs);
const char *oxdp_progs_unpinned(const struct oxdp_progs *progs);

/* Attaches the XDP program to 'ifindex', whose frames then belong to datapath port 'port_no'.
 * 'local_stack': frames may come with checksums left to offload, which programs then hand up. 'native'
 * selects driver mode (XDP_FLAGS_DRV_MODE), else generic (XDP_FLAGS_SKB_MODE). 'sock_fds[q]' is the AF_XDP
 * socket of queue q, 'n_queues' of them: frames arriving on a queue go up through it.  Entries are set
 * before the program is attached. Returns 0, or a negative errno with a sentence in '*ret_error'
 * (malloc'd): -EBUSY when the device has somebody else's XDP program, -EOPNOTSUPP no native XDP, -ERANGE
 * or -EINVAL for an MTU too large, -ENODEV. */
int oxdp_progs_attach(struct oxdp_progs *progs, int ifindex, bool native, bool local_stack, uint32_t port_no,
                      const int sock_fds[], uint32_t n_queues, char **ret_error);

/* Attaches the XDP program also to 'ifindex', which has tcx (oxdp_tcx_attach()): it leaves to that what is for it, until
 * oxdp_tcx_leave().  Arguments and results as those of oxdp_progs_attach(); on failure nothing has changed. */
int oxdp_progs_attach_before(struct oxdp_progs *progs, int ifindex, bool native, bool local_stack, const int sock_fds[],
                             uint32_t n_queues, char **ret_error);

/* Takes XDP from 'ifindex', which also has tcx (oxdp_tcx_attach_behind()) and keeps that.  No frame goes to its sockets
 * any more when this returns. */
void oxdp_progs_leave_xdp(struct oxdp_progs *progs, int ifindex);

/* Who has the XDP hook of device 'ifindex', for people: "XDP program 'name' (id 7, native mode)", with '*ret_ours': a
 * program of this library.  Without CAP_SYS_ADMIN names are not known, then '*ret_ours' is false.  False: nobody has it, or it
 * cannot be asked. */
bool oxdp_progs_describe_owner(int ifindex, char *text, size_t size, bool *ret_ours);

/* Devices that still run the program of a process before, over its tables, keep it when they are attached,
 * until this: then they run the program of 'progs', each from one frame to the next, and what else the process
 * before left is removed.  From then on programs are exchanged when they are attached.  Returns how many
 * devices were taken over; the others have oxdp_progs_error(). */
uint32_t oxdp_progs_take_over(struct oxdp_progs *progs);

/* Why 'ifindex', attached, was left without a program by oxdp_progs_take_over(): a negative errno, -ENODEV if the device is
 * gone; or 0.  To be detached and attached again. */
int oxdp_progs_error(const struct oxdp_progs *progs, int ifindex);

/* Detaches from 'ifindex' (no error if the device is gone) and forgets its port and sockets. */
void oxdp_progs_detach(struct oxdp_progs *progs, int ifindex);

/* Has port 'port_no' run the program in 'file', or the library's for NULL: at once, from one frame to the next, if a
 * device is attached as this port, else from when one is.  0; or a negative errno with a sentence in '*ret_error'
 * (malloc'd), and nothing has changed. */
int oxdp_progs_use(struct oxdp_progs *progs, uint32_t port_no, const char *file, char **ret_error);

/* What the program of port 'port_no' can do.  Any thread. */
struct dp_capability oxdp_progs_capability(struct oxdp_progs *progs, uint32_t port_no);

/* The flow tables that the programs read, NULL if the configuration has no flows. */
struct oxdp_table *oxdp_progs_table(const struct oxdp_progs *progs);

/* The program that runs is one without what no flow needs, once flows have come to rest.  All programs stay right
 * whatever flows there are; but a flow that needs more than what runs would be handed up.  So this comes before
 * oxdp_table_insert() and, if necessary, puts a complete program everywhere.  One thread at a time. */
void oxdp_progs_require(struct oxdp_progs *progs, const struct oxdp_flow *flow);

/* To be called about once a second: may have a program specialised, in a thread of its own. */
void oxdp_progs_tick(struct oxdp_progs *progs);

/* Specialises now, and waits.  0; -EAGAIN if flows need more meanwhile; or why the program does not load. */
int oxdp_progs_specialise(struct oxdp_progs *progs);

/* What the programs that run omit. */
struct dp_omit oxdp_progs_omitted(struct oxdp_progs *progs);

/* Lets programs send to port 'port_no' through device 'ifindex', which must take redirected frames; 0: no
 * more. Returns 0; -ERANGE for a port number that the tables do not hold; or another negative errno.  Whether they can, any
 * thread may ask. */
int oxdp_progs_set_output(struct oxdp_progs *progs, uint32_t port_no, int ifindex);
bool oxdp_progs_can_output(const struct oxdp_progs *progs, uint32_t port_no);

/* Whether the kernel has taken that back, because the device was unregistered since or moved to another network
 * namespace, from which it may come back with its old number. */
bool oxdp_progs_lost_output(const struct oxdp_progs *progs, uint32_t port_no);

/* Says that whoever sends to port 'port_no' sends to nobody, because its device is gone or has no carrier, until
 * oxdp_progs_set_output() says something else: a group may have it.  Returns as that.  Whether it was said, any thread may ask. */
int oxdp_progs_set_absent(struct oxdp_progs *progs, uint32_t port_no);
bool oxdp_progs_is_absent(const struct oxdp_progs *progs, uint32_t port_no);

/* What became of the frames (packets and bytes, since attaching, also by a process before that had the device) that arrived
 * on 'ifindex', by enum dp_counter; 'ifindex' 0: on devices that are no port.  0, -ENODEV if 'ifindex' is not attached, or
 * another negative errno. */
int oxdp_progs_get_counters(const struct oxdp_progs *progs, int ifindex,
                            uint64_t ret_counters[DP_N_COUNTERS]);

/* The same, added up over all devices that are or were ports, since oxdp_progs_load(): never goes backward. */
void oxdp_progs_get_totals(const struct oxdp_progs *progs, uint64_t ret_counters[DP_N_COUNTERS]);

/* Lookups that found a flow, among what 'counters' counted: each frame's last, and those before
 * recirculation. */
uint64_t oxdp_hits(const uint64_t counters[DP_N_COUNTERS]);

/* Frames that 'counters' are about: the sum of their fates. */
uint64_t oxdp_received(const uint64_t counters[DP_N_COUNTERS]);

/* XDP program number 'index' (0: the library's), for people: its name in the kernel and its id there.  0, -ENOENT
 * behind the last, or another negative errno. */
struct oxdp_prog_info {
    char name[16];
    uint32_t id;
    uint32_t xlated_bytes;      /* As BPF, and as machine code. */
    uint32_t jited_bytes;
    const char *file;           /* NULL: the library's.  Until the next oxdp_progs_use(). */
    struct dp_capability capability;
};
int oxdp_progs_get_info(struct oxdp_progs *progs, uint32_t index, struct oxdp_prog_info *ret_info);

/* For a device that is attached with 'local_stack': frames longer than 'max_len' bytes, which is OXDP_MAX_MTU's at first,
 * have segments to be made of them (DP_COUNTER_SEGMENTS).  0, or negative errno. */
int oxdp_progs_set_max_frame(struct oxdp_progs *progs, int ifindex, uint32_t max_len);

/* The counter in words, and the name of its constant ("UP_MISS"); NULL if there is no such counter. */
const char *oxdp_counter_text(enum dp_counter counter);
const char *oxdp_counter_name(enum dp_counter counter);

#endif /* core/programs/progs.h */
