/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel side of one datapath: load its BPF programs and maps, write the ports into these, attach.
 *
 * Programs and maps live as long as the struct; if they have a name, then they are pinned (core/programs/pin.h) and
 * live on, attached, when the process is killed.
 *
 * Threads.  Most of this is for control: one thread at a time.  Threads that install flows may call, at any time
 * between load and unload,
 *
 *     oxdp_progs_capability(), oxdp_progs_has_flows(), oxdp_progs_can_output(), oxdp_progs_is_absent(),
 *     oxdp_progs_table(), oxdp_progs_require() (these threads one at a time),
 *     oxdp_tcx_capability(), oxdp_tcx_can_output() of core/programs/tcx.h, and core/programs/group.h.
 *
 * They may see a change of an output, or of a port's program, late.  So control changes it first, then reinstalls the
 * affected flows, under the lock that a thread that installs a flow holds from asking to inserting.  A flow that was
 * installed by the old answer is then reinstalled; one that is installed later sees the new answer. */
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
    OXDP_MODE_BEST_NATIVE,      /* native-with-zerocopy, else native: what no option says. */
};
const char *oxdp_mode_to_string(enum oxdp_mode mode);
bool oxdp_mode_from_string(const char *s, enum oxdp_mode *ret_mode);

struct oxdp_progs_config {
    uint32_t max_ports;         /* Ports; those that programs can send to have numbers below this. */
    uint32_t max_sockets;
    uint32_t n_flows;           /* Flows in the tables; 0: no tables, the engine gets every frame. */
    const char *name;           /* Of the datapath, to pin under; NULL: nothing is pinned. */
    /* Called when there are maps and no programs yet: oxdp_track_set() of core/programs/track.h may be called, if there
     * are flows.  May be NULL. */
    void (*before_load)(void *aux, struct oxdp_progs *progs);
    void *aux;
};

/* Loads the programs (embedded in the library as a BPF skeleton).  On failure returns a negative errno and
 * a sentence that says what to do in '*ret_error' (malloc'd; may be NULL on success). */
int oxdp_progs_load(const struct oxdp_progs_config *, struct oxdp_progs **ret_progs, char **ret_error);
void oxdp_progs_unload(struct oxdp_progs *progs);   /* Detaches everything.  NULL is allowed. */

/* The folder in which programs and links are pinned, so that they go on when this process ends; NULL if they are not.
 * The reason why they are not, although they have a name; else NULL.  Both are valid as long as 'progs'. */
const char *oxdp_progs_pinned(const struct oxdp_progs *progs);
const char *oxdp_progs_unpinned(const struct oxdp_progs *progs);

/* Pins them after all, as datapath 'name'.  0, or a negative errno, with the reason in oxdp_progs_unpinned(). */
int oxdp_progs_pin(struct oxdp_progs *progs, const char *name);

/* Which tables of the previous instance go on, and which do not and why (core/programs/state.h); NULL if it left none.
 * As long as 'progs'. */
const char *oxdp_progs_restart_text(const struct oxdp_progs *progs);

/* Why the library's program runs without the flow tables that were asked for, and hands every frame up: what the kernel
 * said against the complete one.  NULL if it has them.  Control thread; until oxdp_progs_complete(). */
const char *oxdp_progs_bare(const struct oxdp_progs *progs);

/* Tries once more to load the complete program, if oxdp_progs_bare(): then devices run it, each from one frame to the
 * next.  0; or a negative errno with a sentence in '*ret_error' (malloc'd), and nothing has changed. */
int oxdp_progs_complete(struct oxdp_progs *progs, char **ret_error);

/* Whether the program of port 'port_no' looks flows up.  Any thread. */
bool oxdp_progs_has_flows(struct oxdp_progs *progs, uint32_t port_no);

/* Attaches the XDP program to 'ifindex', whose frames then belong to datapath port 'port_no'.
 * 'local_stack': frames may be CHECKSUM_PARTIAL; programs then hand these to the engine. 'native'
 * selects driver mode (XDP_FLAGS_DRV_MODE), else generic (XDP_FLAGS_SKB_MODE). 'sock_fds[q]' is the AF_XDP
 * socket of queue q, 'n_queues' of them: it gets the queue's frames for the engine.  Entries are set
 * before the program is attached. Returns 0, or a negative errno with a sentence in '*ret_error'
 * (malloc'd): -EBUSY when the device has a foreign XDP program, -EOPNOTSUPP no native XDP, -ERANGE
 * or -EINVAL for an MTU too large, -ENODEV. */
int oxdp_progs_attach(struct oxdp_progs *progs, int ifindex, bool native, bool local_stack, uint32_t port_no,
                      const int sock_fds[], uint32_t n_queues, char **ret_error);

/* Attaches the XDP program also to 'ifindex', which has tcx (oxdp_tcx_attach()).  XDP leaves packets to tcx until
 * oxdp_tcx_leave().  Arguments and results as those of oxdp_progs_attach(); on failure nothing has changed. */
int oxdp_progs_attach_before(struct oxdp_progs *progs, int ifindex, bool native, bool local_stack, const int sock_fds[],
                             uint32_t n_queues, char **ret_error);

/* Gives the port of 'ifindex', which has XDP, the sockets 'sock_fds' of 'n_queues' queues instead of those that it has.
 * When this returns, no frame goes to those any more.  0, or a negative errno with a sentence in '*ret_error'
 * (malloc'd): nothing has changed. */
int oxdp_progs_exchange_sockets(struct oxdp_progs *progs, int ifindex, const int sock_fds[], uint32_t n_queues,
                                char **ret_error);

/* Detaches XDP from 'ifindex', which also has tcx (oxdp_tcx_attach_behind()) and keeps that.  When this returns, no
 * frame goes to its sockets any more. */
void oxdp_progs_leave_xdp(struct oxdp_progs *progs, int ifindex);

/* The XDP program on device 'ifindex', as text: "XDP program 'name' (id 7, native mode)".  '*ret_ours': it is a program
 * of this library.  Without CAP_SYS_ADMIN names are not known, then '*ret_ours' is false.  False: there is none, or the
 * kernel does not answer. */
bool oxdp_progs_describe_owner(int ifindex, char *text, size_t size, bool *ret_ours);

/* -EBUSY, with a sentence in '*ret_error' (malloc'd), if device 'ifindex' has a foreign XDP program; else 0. */
int oxdp_progs_check_owner(int ifindex, char **ret_error);

/* Devices that still run a program of the previous instance, over its tables, keep it when they are attached,
 * until this.  It gives them the program of 'progs', each from one frame to the next, and removes what else the
 * previous instance left.  Later attaching replaces programs at once.  Returns how many
 * devices were taken over; the others have oxdp_progs_error(). */
uint32_t oxdp_progs_take_over(struct oxdp_progs *progs);

/* Why 'ifindex', attached, was left without a program by oxdp_progs_take_over(): a negative errno, -ENODEV if the
 * device is gone; or 0.  Then detach it and attach it again. */
int oxdp_progs_error(const struct oxdp_progs *progs, int ifindex);

/* Detaches from 'ifindex' (no error if the device is gone) and forgets its port and sockets. */
void oxdp_progs_detach(struct oxdp_progs *progs, int ifindex);

/* Makes port 'port_no' run the program in 'file', or the library's for NULL: at once, from one frame to the next, if a
 * device is attached as this port, else when one is attached.  0; or a negative errno with a sentence in '*ret_error'
 * (malloc'd), and nothing has changed. */
int oxdp_progs_use(struct oxdp_progs *progs, uint32_t port_no, const char *file, char **ret_error);

/* What the program of port 'port_no' can do.  Any thread. */
struct dp_capability oxdp_progs_capability(struct oxdp_progs *progs, uint32_t port_no);

/* The largest MTU that the program of port 'port_no' takes (core/multi_buffer.h). */
uint32_t oxdp_progs_max_mtu(struct oxdp_progs *progs, uint32_t port_no);

/* The flow tables that the programs read, NULL if the configuration has no flows. */
struct oxdp_table *oxdp_progs_table(const struct oxdp_progs *progs);

/* Call this before oxdp_table_insert().  Specialised programs run once flows have not changed for a while.  They are
 * correct for all flows, but hand packets of a flow that needs more to the engine.  For such a flow this puts complete
 * programs on all devices.  One thread at a time. */
void oxdp_progs_require(struct oxdp_progs *progs, const struct oxdp_flow *flow);

/* Call this about once a second: it may have a program specialised, in a thread of its own. */
void oxdp_progs_tick(struct oxdp_progs *progs);

/* Specialises now, and waits.  0; -EAGAIN if flows need more meanwhile; or why the program does not load. */
int oxdp_progs_specialise(struct oxdp_progs *progs);

/* What the programs that run omit. */
struct dp_omit oxdp_progs_omitted(struct oxdp_progs *progs);

/* Lets programs send to port 'port_no' through device 'ifindex', which must take redirected frames; with 0 forbids it.
 * Returns 0; -ERANGE for a port number that the tables do not hold; or another negative errno.  Any thread may ask
 * whether they can. */
int oxdp_progs_set_output(struct oxdp_progs *progs, uint32_t port_no, int ifindex);
bool oxdp_progs_can_output(const struct oxdp_progs *progs, uint32_t port_no);

/* Before that is forbidden, while flows that send to port 'port_no' are put elsewhere: those who ask hear that programs
 * cannot, and programs can, for otherwise they would drop the frames of these flows. */
void oxdp_progs_retire_output(struct oxdp_progs *progs, uint32_t port_no);

/* Whether the kernel has removed that entry, because the device was unregistered or moved to another network namespace.
 * It may come back with its old number. */
bool oxdp_progs_lost_output(const struct oxdp_progs *progs, uint32_t port_no);

/* Marks port 'port_no' as absent, because its device is gone or has no carrier: groups may have it, and send nothing to
 * it.  oxdp_progs_set_output() ends that.  Returns as that.  Any thread may ask whether a port is absent. */
int oxdp_progs_set_absent(struct oxdp_progs *progs, uint32_t port_no);
bool oxdp_progs_is_absent(const struct oxdp_progs *progs, uint32_t port_no);

/* The counters of frames that arrived on 'ifindex', by enum dp_counter, since it was attached, also by a previous
 * instance; 'ifindex' 0: on devices that are no port.  0, -ENODEV if 'ifindex' is not attached, or another negative
 * errno. */
int oxdp_progs_get_counters(const struct oxdp_progs *progs, int ifindex,
                            uint64_t ret_counters[DP_N_COUNTERS]);

/* The same, added up over all devices that are or were ports, since oxdp_progs_load(): never goes backward. */
void oxdp_progs_get_totals(const struct oxdp_progs *progs, uint64_t ret_counters[DP_N_COUNTERS]);

/* Lookups that found a flow, among what 'counters' counted: each frame's last, and those before
 * recirculation. */
uint64_t oxdp_hits(const uint64_t counters[DP_N_COUNTERS]);

/* Those of oxdp_hits() whose frames went to the engine with their flow. */
uint64_t oxdp_hits_for_engine(const uint64_t counters[DP_N_COUNTERS]);

/* Frames that 'counters' are about: the sum over all reasons. */
uint64_t oxdp_received(const uint64_t counters[DP_N_COUNTERS]);

/* XDP program number 'index' (0: the library's): its name and id in the kernel, and its sizes.  0, -ENOENT after the
 * last, or another negative errno. */
struct oxdp_prog_info {
    char name[16];
    uint32_t id;
    uint32_t xlated_bytes;      /* As BPF, and as machine code. */
    uint32_t jited_bytes;
    const char *file;           /* NULL: the library's.  Until the next oxdp_progs_use(). */
    struct dp_capability capability;
};
int oxdp_progs_get_info(struct oxdp_progs *progs, uint32_t index, struct oxdp_prog_info *ret_info);

/* For a device that is attached with 'local_stack': from now on frames longer than its present MTU allows have GSO
 * (DP_COUNTER_SEGMENTS; oxdp_device_longest_frame()).  0, or negative errno. */
int oxdp_progs_follow_mtu(struct oxdp_progs *progs, int ifindex);

/* The counter in words, and the name of its constant ("UP_MISS"); NULL if there is no such counter. */
const char *oxdp_counter_text(enum dp_counter counter);
const char *oxdp_counter_name(enum dp_counter counter);

#endif /* core/programs/progs.h */
