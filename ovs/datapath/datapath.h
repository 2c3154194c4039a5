/* SPDX-License-Identifier: Apache-2.0 */
/* The base of the provider: struct dpif_xdp_dp, and what all rooms need of it.
 *
 * The way of a frame, with a miss:
 *
 *   engine/thread.c   threads: wait, receive a burst, account
 *   engine/packet.c   UMEM frame <-> struct dp_packet
 *   engine/input.c    burst -> keys -> flows (lookup/) -> batches;
 *                     misses go to ofproto, the flow is installed
 *   engine/execute.c  a flow's actions
 *   engine/output.c   batches per port -> AF_XDP or netdev
 *
 * Rooms, from the lowest to the highest, each with the header that is its
 * door:
 *
 *   base/      locks, reports                                locks.h report.h
 *   netdev/    the netdev classes "xdp" and "xdp-internal"   netdev_xdp.h
 *   lookup/    flows, and finding the flow of a packet       flow_table.h
 *   state/     connections, meters, bonds         ct.h meter.h bond.h
 *   datapath/  this, and the table of ports                  datapath.h
 *   fastpath/  the flows that BPF programs run               fastpath.h
 *   flows/     operations on flows                           flows.h
 *   engine/    packets that programs leave to the daemon     engine.h
 *   ports/     devices: programs, sockets, changes           ports.h
 *   provider/  struct dpif_class, settings, commands         dpif_xdp.h
 *
 * Locks: ovs/base/locks.h. */
#ifndef DPIF_XDP_DATAPATH_H
#define DPIF_XDP_DATAPATH_H 1

#include "dpif-provider.h"
#include "fat-rwlock.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"
#include "ovs/base/locks.h"
#include "ovs/datapath/port_table.h"
#include "ovs/datapath/trace.h"
#include "ovs/lookup/flow_table.h"
#include "ovs/state/bond.h"
#include "ovs/state/meter.h"
#include "sset.h"

#define DPIF_XDP_DEFAULT_FAST_FLOWS 200000  /* other_config:xdp-flows. */
#define DPIF_XDP_DEFAULT_FRAMES OXDP_DEFAULT_FRAMES

struct dpif_xdp_fastpath;
struct dpif_xdp_packets;
struct dpif_xdp_coverage;
struct dpif_xdp_ct;
struct dpif_xdp_thread;

/* Drops of the engine, per datapath.  Every packet that the engine drops is
 * counted under one of these. */
#define DPIF_XDP_DROPS(X)                                                   \
    X(INVALID_PACKET,   "frame shorter than an Ethernet header")            \
    X(UPCALL_ERROR,     "ofproto refused the upcall")                       \
    X(PORT_NOT_READY,   "ofproto does not know the port yet, or any more")  \
    X(NO_TUNNEL,        "no tunnel has its outer addresses and its key")    \
    X(UPCALL_DISABLED,  "upcalls are disabled")                             \
    X(USERSPACE_ERROR,  "ofproto refused a userspace action")               \
    X(INVALID_PORT,     "output to a port that does not exist")             \
    X(INVALID_BOND,     "output to a bond that does not exist")             \
    X(INVALID_TUNNEL,   "tunnel port does not exist")                       \
    X(TUNNEL_PUSH,      "tunnel header could not be pushed")                \
    X(TUNNEL_POP,       "tunnel header could not be popped")                \
    X(METER,            "above the rate of a meter")                        \
    X(RECIRC_DEPTH,     "recirculation too deep")                           \
    X(FLOW_GONE,        "its flow changed between two of its ct() actions") \
    X(NO_FRAME,         "no free UMEM frame to send from")                  \
    X(TOO_LONG,         "packet longer than the socket takes")              \
    X(OVER_MTU,         "packet longer than the MTU of the output port")    \
    X(NO_SOCKET,        "too many packets wait for a socket to send from")  \
    X(SEND_ERROR,       "the device refused the packet")                    \
    X(TUNNEL_UNUSED,    "tunnel header pushed, but no output follows")      \
    X(PORT_CLOSED,      "the port's device is gone")

enum dpif_xdp_drop {
#define X(NAME, TEXT) DPIF_XDP_DROP_##NAME,
    DPIF_XDP_DROPS(X)
#undef X
    DPIF_XDP_N_DROPS
};

/* The parts of a datapath: only the room that a part is of uses its members,
 * others call functions of that room.  tests/test_layers.py has the rule. */

/* ovs/ports/ */
struct dpif_xdp_dp_ports {
    struct dpif_xdp_backoff kernel_side /* Of dp->progs and dp->packets. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct dpif_xdp_backoff tcx_side    /* Of what all ports at tcx share. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct dpif_xdp_backoff pin_side    /* Of the pins of dp->progs. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool serves_containers              /* There are tunnels, and containers
                                         * for them. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct dpif_xdp_backoff detour_side /* Of devices for detours. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct dpif_xdp_backoff order_side  /* Of the device for order. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    long long int order_due             /* When it is looked at again. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint64_t tunnel_seqs[3]             /* Routes, devices and ports, as
                                         * dpif_xdp_host_tunnels_run() saw
                                         * them. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint32_t n_detours_lost             /* What was said of them. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct dpif_xdp_backoff track_side  /* Of programs that track
                                         * connections. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint64_t track_seq                  /* What dpif_xdp_ct_news() was. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    unsigned int take_over_rounds OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool taken_over                     /* Programs of a previous instance are
                                         * gone. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    size_t n_xdp_ports                  /* Open ports with XDP. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    int hook                            /* enum dpif_xdp_hook of ports that
                                         * have "auto". */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    char *obj                           /* xdp-obj of ports without, or
                                         * NULL. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint32_t n_frames                   /* Configured size of the UMEM. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint32_t n_fast_flows               /* Flows in programs' tables. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    long long int next_shortcut_look    /* ms. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct cmap_position shortcut_turn  /* Of the ports, for that look. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
};

/* ovs/engine/thread.c */
struct dpif_xdp_dp_engine {
    struct ovs_mutex mutex;             /* dpif_xdp_engine_mutex. */
    struct dpif_xdp_thread **threads OVS_GUARDED_BY(dpif_xdp_engine_mutex);
    size_t n_threads OVS_GUARDED_BY(dpif_xdp_engine_mutex);
    struct dpif_xdp_sampler *sampler;   /* With dp->progs, or NULL. */
    char *cpu_mask                      /* other_config:pmd-cpu-mask. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint32_t cache_size                 /* Signature cache entries a thread. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);

    /* Counts of everything outside of engine threads. */
    struct dpif_xdp_cls_stats cls_stats;
};

/* ovs/engine/upcall.c */
struct dpif_xdp_dp_upcall {
    struct fat_rwlock rwlock;           /* dpif_xdp_upcall_rwlock. */
    atomic_bool began;                  /* They were enabled once. */
    upcall_callback *cb OVS_GUARDED_BY(dpif_xdp_upcall_rwlock);
    void *aux OVS_GUARDED_BY(dpif_xdp_upcall_rwlock);
};

/* ovs/engine/send.c: sending to ports at tcx. */
struct dpif_xdp_dp_senders {
    int stack_fd;                       /* -1: there are no such ports.  Set
                                         * once. */
    int tunnel_fd;                      /* Likewise, of tunnels by the routes
                                         * of the host. */
    atomic_count n;                     /* AF_XDP sockets of such ports. */
    struct seq *seq;                    /* Changes when a sender is
                                         * 'wanted'. */
    uint64_t last_seq OVS_GUARDED_BY(dpif_xdp_port_mutex);
};

/* ovs/flows/round.c: rounds of ofproto's revalidators. */
struct dpif_xdp_dp_rounds {
    /* Used by the one thread of ofproto that begins rounds. */
    unsigned int n_wanted;              /* Revalidations, ever, and ... */
    unsigned long long int n_limited;   /* ... batches above the limit of
                                         * flows, when it looked last. */
    long long int limited;              /* When that changed last, ms. */
    uint32_t n_flows;                   /* When the last complete round
                                         * began, ... */
    long long int last;                 /* ... which was then, ms. */
    unsigned int n_due;                 /* Rounds that must be complete. */

    /* Written by any thread, since the last complete round began. */
    atomic_uint32_t n_expired;          /* Flows that revalidators deleted. */
    atomic_bool disturbed;              /* Others deleted some, or changing
                                         * one failed. */
};

/* ovs/provider/: used by the main thread. */
struct dpif_xdp_dp_provider {
    uint64_t last_tnl_conf_seq;
    long long int next_optimize;        /* When to sort the masks, ms. */
    struct dpif_xdp_coverage *coverage; /* Drops that it was told of. */
    struct sset warnings                /* What is wrong with the settings. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct sset later                   /* What of them takes effect later. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
};

/* ovs/datapath/datapath.c */
struct dpif_xdp_dp_counts {
    atomic_uint64_t lost;
    atomic_uint64_t drops[DPIF_XDP_N_DROPS];
};

/* A datapath. */
struct dpif_xdp_dp {
    const struct dpif_class *const class;
    const char *const name;
    struct ovs_refcount ref_cnt OVS_GUARDED_BY(dpif_xdp_registry_mutex);
    bool destroyed OVS_GUARDED_BY(dpif_xdp_registry_mutex);

    struct ovs_mutex port_mutex;        /* dpif_xdp_port_mutex. */
    struct ovs_mutex flow_mutex;        /* dpif_xdp_flow_mutex. */

    /* The kernel's side and the memory of packets: made with the first port
     * that has a Linux device, then constant. */
    struct oxdp_progs *progs;
    struct dpif_xdp_packets *packets;
    struct dpif_xdp_fastpath *fastpath; /* NULL: no flow runs in programs. */

    /* State of traffic. */
    struct dpif_xdp_meters meters;
    struct dpif_xdp_bonds bonds;
    struct dpif_xdp_ct *ct;

    /* A part for each room. */
    struct dpif_xdp_port_table port_table;
    struct dpif_xdp_flows flows;
    struct dpif_xdp_dp_ports ports;
    struct dpif_xdp_dp_engine engine;
    struct dpif_xdp_dp_upcall upcall;
    struct dpif_xdp_dp_senders senders;
    struct dpif_xdp_dp_rounds rounds;
    struct dpif_xdp_dp_provider provider;
    struct dpif_xdp_dp_counts counts;
    struct dpif_xdp_trace trace;
};

struct dpif_xdp {
    struct dpif dpif;
    struct dpif_xdp_dp *dp;
    uint64_t last_port_seq;
};

/* The one string that names the type: Open vSwitch compares some of these
 * pointers (lib/netdev-offload.c), so all code uses this one. */
extern const char dpif_xdp_type[];

/* The set of datapaths. */
void dpif_xdp_registry_add(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_registry_mutex);
void dpif_xdp_registry_remove(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_registry_mutex);

/* Returns the datapath with that name, or NULL. */
struct dpif_xdp_dp *dpif_xdp_registry_find(const char *name)
    OVS_REQUIRES(dpif_xdp_registry_mutex);

/* As the member of struct dpif_class with that name. */
int dpif_xdp_enumerate(struct sset *, const struct dpif_class *);

/* Take and release the mutexes of 'dp'. */
void dpif_xdp_port_lock(const struct dpif_xdp_dp *dp)
    OVS_ACQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_unlock(const struct dpif_xdp_dp *dp)
    OVS_RELEASES(dpif_xdp_port_mutex);
void dpif_xdp_flow_lock(const struct dpif_xdp_dp *dp)
    OVS_ACQUIRES(dpif_xdp_flow_mutex);
void dpif_xdp_flow_unlock(const struct dpif_xdp_dp *dp)
    OVS_RELEASES(dpif_xdp_flow_mutex);

/* Calls 'cb' for each datapath, under the mutex that keeps it. */
void dpif_xdp_for_each(void (*cb)(struct dpif_xdp_dp *, void *aux),
                       void *aux);

struct dpif_xdp_dp *dpif_xdp_dp_cast(const struct dpif *);
struct dpif_xdp_ct *dpif_xdp_ct_of(const struct dpif *);

/* Count 'n' dropped packets; a packet that ofproto never saw. */
void dpif_xdp_count_drops(struct dpif_xdp_dp *, enum dpif_xdp_drop, size_t n);
void dpif_xdp_count_lost(struct dpif_xdp_dp *);
uint64_t dpif_xdp_get_drops(const struct dpif_xdp_dp *, enum dpif_xdp_drop);
uint64_t dpif_xdp_get_lost(const struct dpif_xdp_dp *);
const char *dpif_xdp_drop_name(enum dpif_xdp_drop);
const char *dpif_xdp_drop_text(enum dpif_xdp_drop);

#endif /* ovs/datapath/datapath.h */
