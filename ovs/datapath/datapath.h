/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms of the provider share.
 *
 * A frame's way, miss included:
 *
 *   engine/thread.c  threads: wait, receive a burst, account
 *   packet.c            UMEM frame <-> struct dp_packet
 *   engine/input.c    burst -> keys -> flows (lookup.c) -> batches;
 *                       misses go to ofproto, the flow is installed
 *   engine/execute.c  a flow's actions
 *   engine/output.c   batches per port -> AF_XDP or netdev
 *
 * Control: dpif_xdp.c (class, life cycle), provider/config.c (settings),
 * ports/, flows/.
 *
 * Locks, in the order in which they may be taken:
 *
 *   dp_mutex (dpif_xdp.c) > dp->port_mutex > thread->mutex > flow_mutex
 *                                          > dp->threads_mutex
 *
 * 'thread->mutex' is held by an engine thread while it handles a burst, so
 * also during upcalls; thus nothing reached from operate(), execute() or the
 * upcall callback may take it, nor 'port_mutex' or 'dp_mutex'.  'flow_mutex'
 * is never held while calling out of this provider. */
#ifndef DPIF_XDP_PRIVATE_H
#define DPIF_XDP_PRIVATE_H 1

#include "ovs/state/bond.h"
#include "cmap.h"
#include "conntrack.h"
#include "core/kernel/device.h"
#include "core/programs/progs.h"
#include "core/xsk/sock.h"
#include "core/xsk/umem.h"
#include "dp-packet.h"
#include "dpif-provider.h"
#include "ovs/fastpath/fastpath.h"
#include "fat-rwlock.h"
#include "ovs/lookup/known_masks.h"
#include "ovs/lookup/lookup.h"
#include "ovs/state/meter.h"
#include "netdev.h"
#include "ovs-atomic.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"
#include "ovs/engine/packet.h"
#include "seq.h"
#include "ovs/lookup/ufids.h"
#include "util.h"

#define DPIF_XDP_MAX_PORTS 4096         /* Ports that a datapath may have. */
#define DPIF_XDP_MAX_QUEUES 64          /* Receive queues used per port. */
#define DPIF_XDP_MAX_SOCKETS 8192       /* AF_XDP sockets that receive. */
#define DPIF_XDP_MAX_SENDERS 64         /* And that only send. */
#define DPIF_XDP_MAX_RECIRC_DEPTH 6     /* As in lib/dpif-netdev.c. */
#define DPIF_XDP_DEFAULT_FAST_FLOWS 200000  /* other_config:xdp-flows. */
#define DPIF_XDP_DEFAULT_FRAMES OXDP_DEFAULT_FRAMES

struct dpif_xdp_thread;
struct json;
struct odp_support;

/* What happened to packets, per datapath; names in dpif_xdp.c.  Every packet
 * that the engine drops is counted under one of these. */
#define DPIF_XDP_DROPS(X)                                                   \
    X(INVALID_PACKET,   "frame shorter than an Ethernet header")            \
    X(UPCALL_ERROR,     "ofproto refused the upcall")                       \
    X(UPCALL_DISABLED,  "upcalls are disabled")                             \
    X(USERSPACE_ERROR,  "ofproto refused a userspace action")               \
    X(INVALID_PORT,     "output to a port that does not exist")             \
    X(INVALID_BOND,     "output to a bond that does not exist")             \
    X(INVALID_TUNNEL,   "tunnel port does not exist")                       \
    X(TUNNEL_PUSH,      "tunnel header could not be pushed")                \
    X(TUNNEL_POP,       "tunnel header could not be popped")                \
    X(METER,            "above the rate of a meter")                        \
    X(RECIRC_DEPTH,     "recirculation too deep")                           \
    X(NO_FRAME,         "no free UMEM frame to send from")                  \
    X(TOO_LONG,         "packet longer than a UMEM frame")                  \
    X(PORT_CLOSED,      "the port's device is gone")

enum dpif_xdp_drop {
#define X(NAME, TEXT) DPIF_XDP_DROP_##NAME,
    DPIF_XDP_DROPS(X)
#undef X
    DPIF_XDP_N_DROPS
};

/* A datapath. */
struct dpif_xdp_dp {
    const struct dpif_class *const class;
    const char *const name;
    struct ovs_refcount ref_cnt;        /* Guarded by dp_mutex. */
    bool destroyed;                     /* Guarded by dp_mutex. */

    /* Ports.  Writers hold 'port_mutex', readers are under RCU. */
    struct ovs_mutex port_mutex;
    struct cmap ports;                  /* By port number. */
    struct seq *port_seq;               /* Changes with the set of ports. */

    /* Flows.  Writers hold 'flow_mutex', readers are under RCU. */
    struct ovs_mutex flow_mutex;
    struct dpif_xdp_cls cls;            /* All flows. */
    struct dpif_xdp_ufids ufids;        /* Guarded by 'flow_mutex'. */
    struct dpif_xdp_known_masks masks;  /* Guarded by 'flow_mutex'. */
    struct dpif_xdp_flow *deleted;      /* To be freed through RCU; guarded by
                                         * 'flow_mutex' ... */
    size_t n_deleted;                   /* ... as this. */

    struct dpif_xdp_meters meters;
    struct dpif_xdp_bonds bonds;
    struct conntrack *conntrack;

    /* Upcalls.  Held for reading around each upcall, for writing while
     * ofproto has upcalls disabled. */
    struct fat_rwlock upcall_rwlock;
    atomic_bool upcalls_began;          /* They were enabled once. */
    upcall_callback *upcall_cb;
    void *upcall_aux;

    /* Kernel side; exists from the first port that has a Linux device. */
    struct oxdp_progs *progs;           /* Guarded by 'port_mutex'. */
    unsigned int take_over_rounds;      /* Guarded by 'port_mutex'. */
    bool taken_over;                    /* Guarded by 'port_mutex': programs
                                         * of a daemon before are gone. */
    struct dpif_xdp_packets *packets;   /* Set once, then constant. */
    uint32_t n_frames;                  /* Configured size of the UMEM. */
    uint32_t n_fast_flows;              /* Flows in programs' tables. */
    struct dpif_xdp_fastpath *fastpath; /* Set once, then constant. */

    /* Sending to ports at tcx. */
    int stack_fd;                       /* -1: there are no such ports.  Set
                                         * once. */
    struct ovs_mutex sender_mutex;      /* Held while a socket is opened. */
    atomic_count n_senders;            /* AF_XDP sockets of such ports. */
    struct seq *sender_seq;             /* Changes when a sender is 'wanted'. */
    uint64_t last_sender_seq;           /* Guarded by 'port_mutex'. */

    /* Guarded by 'port_mutex'. */
    struct dpif_xdp_port *upcalls;      /* What comes up from tcx; in no other
                                         * list.  NULL: no port has tcx. */
    long long int next_shortcut_look;   /* ms. */
    struct cmap_position shortcut_turn; /* Of the ports, for that look. */
    size_t n_xdp_ports;                 /* Open ports with XDP. */
    int hook;                           /* enum dpif_xdp_hook of ports that
                                         * have "auto". */
    char *obj;                          /* xdp-obj of ports without, or NULL. */

    /* Engine threads.  Written under 'port_mutex' and 'threads_mutex', read
     * under either; the latter is held for an instant only. */
    struct ovs_mutex threads_mutex;
    struct dpif_xdp_thread **threads;
    size_t n_threads;
    char *cpu_mask;                     /* other_config:pmd-cpu-mask. */

    uint32_t cache_size;                /* Signature cache entries a thread. */
    uint64_t last_tnl_conf_seq;
    long long int next_optimize;        /* When to sort the masks, ms. */

    /* Counts of everything outside of engine threads. */
    struct dpif_xdp_cls_stats cls_stats;
    atomic_uint64_t n_lost;
    atomic_uint64_t drops[DPIF_XDP_N_DROPS];
};

struct dpif_xdp {
    struct dpif dpif;
    struct dpif_xdp_dp *dp;
    uint64_t last_port_seq;
};

/* How the engine sends to a port at tcx (ovs/engine/send.c). */
struct dpif_xdp_sender {
    /* Guarded by the port's 'tx_rwlock'. */
    struct oxdp_sock *sock;             /* NULL: dp->stack_fd. */
    long long int refused_until;        /* Monotonic ms: no 'sock' before. */

    /* Of dp->stack_fd, and of sockets that were closed. */
    atomic_uint64_t n_sent;
    atomic_uint64_t n_dropped;

    /* Whether 'sock' is worth while. */
    atomic_llong since;                 /* Monotonic ms. */
    atomic_uint32_t n_since;            /* Packets without 'sock' since. */
    atomic_bool wanted;                 /* dpif_xdp_sender_run() has work. */

    /* Guarded by dp->port_mutex. */
    long long int next_look;            /* Monotonic ms. */
    uint64_t n_at_look;                 /* Packets that it had sent then. */
};

/* One source of packets: an AF_XDP socket or a netdev receive queue. */
struct dpif_xdp_rxq {
    struct dpif_xdp_port *port;
    struct oxdp_sock *sock;             /* NULL: 'rxq' is used. */
    struct netdev_rxq *rxq;
    int fd;                             /* For epoll; -1: polled by run(). */
    struct dpif_xdp_thread *thread;     /* Who polls it. */
    atomic_uint64_t n_packets;          /* Received, for xdp/show. */
};

struct dpif_xdp_port {
    struct cmap_node node;              /* In dp->ports. */
    odp_port_t port_no;
    struct netdev *netdev;              /* As Open vSwitch knows the port. */
    struct netdev *dev;                 /* Where its packets come and go: the
                                         * same, but of an internal port the
                                         * other end (netdev_internal.h). */
    char *type;                         /* Port type. */
    struct netdev_saved_flags *sf;      /* Promiscuous mode. */
    bool can_send;

    /* Guarded by dp->port_mutex. */
    uint64_t change_seq;                /* Of 'netdev', as last seen. */
    uint64_t config_seq;                /* Of its options, as last seen. */
    uint64_t obj_seq;                   /* Of its xdp-obj, as last seen. */
    char *obj;                          /* File of its program; NULL: ours. */
    long long int retry;                /* When to try again, ms; LLONG_MAX:
                                         * it did not fail. */
    struct oxdp_device device;          /* Linux device, if 'is_device'. */
    struct oxdp_offload_undo *offloads;
    bool is_device;                     /* Uses AF_XDP. */
    bool native;                        /* Can be a target of XDP. */
    bool redirects;                     /* XDP can send to it. */
    bool prepared;                      /* At tcx: XDP might. */
    const char *no_shortcut;            /* At tcx: why packets must be sent
                                         * through the device; NULL: they may
                                         * skip it (core/kernel/shortcut.h). */
    bool tcx_egress;                    /* oxdp_tcx_has_egress(), as last
                                         * seen. */
    long long int next_look;            /* For programs of others, ms. */
    int warned_ifindex;                 /* Whose filters were warned of. */
    atomic_int hook;                    /* enum dpif_xdp_hook, not "auto": where
                                         * programs take its packets.  Read
                                         * without the mutex. */

    struct dpif_xdp_rxq *rxqs;
    size_t n_rxqs;

    /* Senders hold it for reading; opening and closing for writing. */
    struct ovs_rwlock tx_rwlock;
    bool open;                          /* May be sent to. */
    struct dpif_xdp_sender sender;      /* If 'is_device' without 'rxqs'. */
    bool local_stack;                   /* Complete checksums on receive. */
    bool shaped;                        /* Send through the network stack. */
};

/* The actions of a flow, immutable, freed through RCU. */
struct dpif_xdp_actions {
    size_t size;
    uint32_t growth;                    /* Bytes that they may prepend. */
    bool uses_hash;                     /* Of the packet's 5-tuple. */
    OVS_ALIGNED_VAR(8) struct nlattr actions[];
};

/* A flow.  Immutable but for 'actions' and the statistics.  Its key, the values
 * of its rule and the actions that it began with are in one block of memory
 * with it. */
struct dpif_xdp_flow {
    struct dpif_xdp_rule rule;          /* In dp->cls. */
    struct miniflow *key;               /* Unmasked, of the first packet. */
    OVSRCU_TYPE(struct dpif_xdp_actions *) actions;
    struct dpif_xdp_actions *first_actions;
    ovs_u128 ufid;
    struct dpif_xdp_flow *next_deleted; /* In dp->deleted. */

    /* Of the engine. */
    atomic_uint64_t n_packets;
    atomic_uint64_t n_bytes;
    atomic_llong used;                  /* Monotonic ms; 0: never. */
    atomic_uint16_t tcp_flags;

    /* Guarded by dp->flow_mutex. */
    struct dpif_xdp_fastpath_flow fp;
    atomic_bool deleted;                /* Read by any thread. */
};

/* Brings all of a flow closer. */
static inline void
dpif_xdp_flow_prefetch(const struct dpif_xdp_flow *flow)
{
    for (size_t i = 0; i < sizeof *flow; i += CACHE_LINE_SIZE) {
        OVS_PREFETCH_WRITE((const char *) flow + i);
    }
}

/* What a thread needs while it handles one burst.  Lives on the stack. */
#define DPIF_XDP_MAX_OUT 16
struct dpif_xdp_ctx {
    struct dpif_xdp_dp *dp;
    struct dpif_xdp_cache *cache;       /* NULL outside of engine threads. */
    struct dpif_xdp_cls_stats *cls_stats;
    bool *expect_simple;                /* As the flow seen last; or NULL. */
    long long int now;                  /* Monotonic, microseconds. */
    uint32_t tx_queue;                  /* Spreads threads over queues. */
    bool via_stack;                     /* Send where tcpdump sees it. */
    size_t n_out;                       /* Batches that wait for sending. */
    struct dpif_xdp_out {
        struct dpif_xdp_port *port;
        struct dp_packet_batch batch;
    } out[DPIF_XDP_MAX_OUT];
};

/* dpif_xdp.c */
struct dpif_xdp_dp *dpif_xdp_dp_cast(const struct dpif *);
struct conntrack *dpif_xdp_conntrack(const struct dpif *);
void dpif_xdp_count_drops(struct dpif_xdp_dp *, enum dpif_xdp_drop, size_t n);
void dpif_xdp_count_lost(struct dpif_xdp_dp *);
const char *dpif_xdp_drop_name(enum dpif_xdp_drop);
const char *dpif_xdp_drop_text(enum dpif_xdp_drop);
void dpif_xdp_for_each(void (*cb)(struct dpif_xdp_dp *, void *aux),
                       void *aux);

/* provider/config.c */
int dpif_xdp_set_config(struct dpif *, const struct smap *other_config);
int dpif_xdp_cache_get_supported_levels(struct dpif *, uint32_t *levels);
int dpif_xdp_cache_get_name(struct dpif *, uint32_t level, const char **name);
int dpif_xdp_cache_get_size(struct dpif *, uint32_t level, uint32_t *size);
int dpif_xdp_cache_set_size(struct dpif *, uint32_t level, uint32_t size);

/* ports/port.c */
struct dpif_xdp_port *dpif_xdp_port_lookup(const struct dpif_xdp_dp *,
                                           odp_port_t);
int dpif_xdp_port_create(struct dpif_xdp_dp *, const char *devname,
                         const char *type, odp_port_t)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_ports_destroy(struct dpif_xdp_dp *);
void dpif_xdp_ports_run(struct dpif_xdp_dp *);
void dpif_xdp_ports_wait(struct dpif_xdp_dp *);
int dpif_xdp_port_add(struct dpif *, struct netdev *, odp_port_t *);
int dpif_xdp_port_del(struct dpif *, odp_port_t);
int dpif_xdp_port_set_config(struct dpif *, odp_port_t, const struct smap *);
int dpif_xdp_port_query_by_number(const struct dpif *, odp_port_t,
                                  struct dpif_port *);
int dpif_xdp_port_query_by_name(const struct dpif *, const char *,
                                struct dpif_port *);
int dpif_xdp_port_dump_start(const struct dpif *, void **);
int dpif_xdp_port_dump_next(const struct dpif *, void *, struct dpif_port *);
int dpif_xdp_port_dump_done(const struct dpif *, void *);
int dpif_xdp_port_poll(const struct dpif *, char **);
void dpif_xdp_port_poll_wait(const struct dpif *);

/* leave.c */
bool dpif_xdp_is_leaving(void);
bool dpif_xdp_leaving_operate(struct dpif *, struct dpif_op *);

/* take_over.c */
void dpif_xdp_take_over_run(struct dpif_xdp_dp *)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_take_over_wait(struct dpif_xdp_dp *)
    OVS_REQUIRES(dp->port_mutex);

/* ovs/engine/send.c */
void dpif_xdp_senders_init(struct dpif_xdp_dp *);
void dpif_xdp_senders_destroy(struct dpif_xdp_dp *);
bool dpif_xdp_sender_send(struct dpif_xdp_ctx *, struct dpif_xdp_port *,
                          struct dp_packet_batch *, bool more)
    OVS_REQ_RDLOCK(port->tx_rwlock);
void dpif_xdp_sender_open_sock(struct dpif_xdp_dp *, struct dpif_xdp_port *);
bool dpif_xdp_sender_get_stats(struct dpif_xdp_port *, uint64_t *n_sent,
                               uint64_t *n_dropped);

/* ovs/ports/tcx.c */
void dpif_xdp_upcalls_close(struct dpif_xdp_dp *)
    OVS_REQUIRES(dp->port_mutex);

/* flows/flow_put.c */
struct dpif_xdp_flow *dpif_xdp_flow_from_rule(const struct dpif_xdp_rule *);
struct dpif_xdp_flow *dpif_xdp_flow_next(const struct dpif_xdp_dp *,
                                         uint32_t *position);
struct dpif_xdp_actions *dpif_xdp_flow_actions(const struct dpif_xdp_flow *);
void dpif_xdp_flow_used(struct dpif_xdp_flow *, size_t n_packets,
                        size_t n_bytes, uint16_t tcp_flags, long long now_ms);
struct dpif_xdp_flow *dpif_xdp_flow_install(struct dpif_xdp_dp *,
                                            struct subtable *,
                                            const struct flow *key,
                                            const struct miniflow *map,
                                            const ovs_u128 *,
                                            const struct nlattr *actions,
                                            size_t actions_len, bool probe)
    OVS_REQUIRES(dp->flow_mutex);
void dpif_xdp_flow_free(struct dpif_xdp_dp *, struct dpif_xdp_flow *)
    OVS_REQUIRES(dp->flow_mutex);
void dpif_xdp_flows_free(struct dpif_xdp_dp *)
    OVS_REQUIRES(dp->flow_mutex);
void dpif_xdp_wc_finish(struct flow_wildcards *);
void dpif_xdp_flows_flush(struct dpif_xdp_dp *);
int dpif_xdp_flow_flush(struct dpif *);
void dpif_xdp_flows_put(struct dpif *, struct dpif_op *ops[], size_t n);
void dpif_xdp_flows_del(struct dpif *, struct dpif_op *ops[], size_t n);
int dpif_xdp_flow_get(struct dpif *, const struct dpif_flow_get *);

/* flows/flow_dump.c */
extern const struct odp_support dpif_xdp_odp_support;
void dpif_xdp_flow_format(const struct dpif_xdp_dp *,
                          const struct dpif_xdp_flow *, struct ofpbuf *key_buf,
                          struct ofpbuf *mask_buf, struct dpif_flow *,
                          bool terse);
void dpif_xdp_flow_get_stats(const struct dpif_xdp_dp *,
                             const struct dpif_xdp_flow *,
                             struct dpif_flow_stats *);
struct dpif_flow_dump *dpif_xdp_flow_dump_create(
    const struct dpif *, bool terse, struct dpif_flow_dump_types *);
int dpif_xdp_flow_dump_destroy(struct dpif_flow_dump *);
struct dpif_flow_dump_thread *dpif_xdp_flow_dump_thread_create(
    struct dpif_flow_dump *);
void dpif_xdp_flow_dump_thread_destroy(struct dpif_flow_dump_thread *);
int dpif_xdp_flow_dump_next(struct dpif_flow_dump_thread *,
                            struct dpif_flow *, int max_flows);

/* engine/input.c */
void dpif_xdp_input(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                    struct dpif_xdp_flow *matched[]);
int dpif_xdp_upcall(struct dpif_xdp_dp *, struct dp_packet *, struct flow *,
                    struct flow_wildcards *, ovs_u128 *ufid,
                    enum dpif_upcall_type, const struct nlattr *userdata,
                    struct ofpbuf *actions, struct ofpbuf *put_actions);

/* engine/execute.c */
uint32_t dpif_xdp_actions_growth(const struct nlattr *, size_t);
bool dpif_xdp_actions_use_hash(const struct nlattr *, size_t);
void dpif_xdp_execute_actions(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                              bool should_steal, const struct miniflow *,
                              const struct nlattr *, size_t,
                              uint32_t growth);
uint32_t dpif_xdp_recirc_depth(void);
int dpif_xdp_execute(struct dpif *, struct dpif_execute *);

/* engine/output.c */
void dpif_xdp_ctx_init(struct dpif_xdp_ctx *, struct dpif_xdp_dp *,
                       struct dpif_xdp_thread *);
bool dpif_xdp_output(struct dpif_xdp_ctx *, struct dp_packet_batch *,
                     bool should_steal, odp_port_t);
void dpif_xdp_output_flush(struct dpif_xdp_ctx *);
void dpif_xdp_send_sock(struct dpif_xdp_ctx *, struct oxdp_sock *,
                        struct dp_packet_batch *, bool more);

/* engine/thread.c */
struct dpif_xdp_thread;
void dpif_xdp_threads_configure(struct dpif_xdp_dp *)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_threads_stop(struct dpif_xdp_dp *)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_threads_add_port(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
void dpif_xdp_threads_remove_port(struct dpif_xdp_port *);
void dpif_xdp_poll_port(struct dpif_xdp_dp *, struct dpif_xdp_port *);
void dpif_xdp_threads_get_stats(struct dpif_xdp_dp *,
                                struct dpif_xdp_cls_stats *);
struct dpif_xdp_cache *dpif_xdp_thread_cache(struct dpif_xdp_thread *);
struct dpif_xdp_cls_stats *dpif_xdp_thread_stats(struct dpif_xdp_thread *);
bool *dpif_xdp_thread_expect_simple(struct dpif_xdp_thread *);
void dpif_xdp_threads_report(const struct dpif_xdp_dp *, struct json *report);

/* appctl.c */
void dpif_xdp_appctl_init(void);

#endif /* ovs/datapath/datapath.h */
