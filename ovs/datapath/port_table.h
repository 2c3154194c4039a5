/* SPDX-License-Identifier: Apache-2.0 */
/* The ports of a datapath, and finding one.  ovs/ports/ opens and serves their
 * devices. */
#ifndef DPIF_XDP_PORT_TABLE_H
#define DPIF_XDP_PORT_TABLE_H 1

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmap.h"
#include "core/kernel/device.h"
#include "core/programs/limit.h"
#include "dp-packet.h"
#include "openvswitch/types.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"
#include "ovs/base/locks.h"

#define DPIF_XDP_MAX_PORTS 4096         /* Ports that a datapath may have. */
#define DPIF_XDP_MAX_QUEUES 64          /* Receive queues used per port. */
#define DPIF_XDP_MAX_SOCKETS 8192       /* AF_XDP sockets that receive. */

struct dpif_xdp_dp;
struct dpif_xdp_thread;
struct netdev;
struct netdev_rxq;
struct oxdp_sock;
struct seq;

/* Something that failed, and when it may be tried again. */
struct dpif_xdp_backoff {
    int error;                          /* 0: it did not fail. */
    char *text;                         /* Why, or NULL. */
    unsigned int ms;                    /* How long to wait. */
    long long int until;                /* Monotonic ms. */
};

/* How the engine sends to a port at tcx (ovs/engine/send.c). */
struct dpif_xdp_sender {
    struct oxdp_sock *sock              /* NULL: dp->senders.stack_fd. */
        OVS_GUARDED_BY(dpif_xdp_tx_rwlock);
    long long int refused_until         /* Monotonic ms: no 'sock' before. */
        OVS_GUARDED_BY(dpif_xdp_tx_rwlock);

    /* Packets that only an AF_XDP socket can send, and those behind them, wait
     * until the main thread has opened one. */
    struct ovs_mutex mutex;             /* dpif_xdp_waiting_mutex. */
    struct dp_packet_batch waiting OVS_GUARDED_BY(dpif_xdp_waiting_mutex);
    atomic_bool any_waiting;

    /* Of dp->senders.stack_fd, and of sockets that were closed. */
    atomic_uint64_t n_sent;
    atomic_uint64_t n_dropped;

    /* Whether 'sock' is worth while. */
    atomic_llong since;                 /* Monotonic ms. */
    atomic_uint32_t n_since;            /* Packets without 'sock' since. */
    atomic_bool wanted;                 /* dpif_xdp_sender_run() has work. */

    long long int next_look             /* Monotonic ms. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint64_t n_at_look                  /* Packets that it had sent then. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
};

/* One source of packets: an AF_XDP socket or a netdev receive queue. */
struct dpif_xdp_rxq {
    struct dpif_xdp_port *port;
    struct oxdp_sock *sock;             /* NULL: 'rxq' is used. */
    struct netdev_rxq *rxq;
    int fd;                             /* For epoll; -1: polled by run(). */
    bool local_stack;                   /* Complete checksums on receive. */
    struct dpif_xdp_thread *thread;     /* It polls it. */
    atomic_uint64_t n_packets;          /* Received, for xdp/show. */
};

/* What the guest behind a tap sends.  Times are in ms. */
struct dpif_xdp_guest {
    bool seen_unfinished;               /* It sends packets with GSO or
                                         * CHECKSUM_PARTIAL, or did lately. */
    bool sends_unfinished;              /* The same, when the hook was
                                         * chosen. */
    bool counted;                       /* 'n_...' are valid. */
    uint64_t n_received, n_unfinished;  /* As last seen. */
    long long int next_look;
    long long int until;                /* When that is no longer lately. */
    unsigned int hold_ms;               /* How long lately is. */
};

struct dpif_xdp_port {
    struct cmap_node node;              /* In dp->ports. */
    odp_port_t port_no;
    struct netdev *netdev;              /* As Open vSwitch knows the port. */
    struct netdev *dev;                 /* Where its packets come and go: the
                                         * same, but of an internal port the
                                         * peer (netdev_internal.h). */
    char *type;                         /* Port type. */
    struct netdev_saved_flags *sf;      /* Promiscuous mode. */
    bool can_send;

    uint64_t change_seq                 /* Of 'netdev', as last seen. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint64_t config_seq                 /* Of its options, as last seen. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint64_t obj_seq                    /* Of its xdp-obj, as last seen. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    char *obj                           /* File of its program; NULL: ours. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    long long int retry                 /* When to try again, ms; LLONG_MAX:
                                         * it did not fail. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    unsigned int retry_ms               /* How long to wait for that. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint32_t largest_mtu                /* Of the device, or of a veth's peer:
                                         * bounds what arrives. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    uint32_t smallest_mtu               /* The same: bounds what it takes. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct oxdp_limit limit             /* What programs know of that. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    atomic_uint32_t max_len;            /* Of a packet without a VLAN tag that
                                         * the engine sends to it. */
    struct oxdp_device device;          /* Linux device, if 'is_device':
                                         * written while the port is not
                                         * open. */
    struct oxdp_offload_undo *offloads OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool peer_unset                     /* At XDP: the peer's offloads could
                                         * not be set. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool is_device;                     /* Uses AF_XDP. */
    bool fit                            /* The switch may have the device. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool no_native                      /* Native XDP was refused. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool native                         /* Can be a target of XDP. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool redirects                      /* XDP can send to it. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool prepared                       /* At tcx: XDP might. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    const char *no_shortcut             /* At tcx: why packets must be sent
                                         * through the device; NULL: they may
                                         * skip it (core/kernel/shortcut.h). */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool other_xdp                      /* Not at XDP, where a foreign program
                                         * is. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool tcx_egress                     /* oxdp_tcx_has_egress(), as last
                                         * seen. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    long long int next_look             /* For foreign programs, ms. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct dpif_xdp_guest guest         /* Behind a tap. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    atomic_bool pops_tunnels;           /* A flow of it has popped tunnel
                                         * headers. */
    bool underlay                       /* dpif_xdp_port_is_underlay(), as its
                                         * hook was chosen. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    bool merges                         /* Of tunnels: the kernel merges their
                                         * frames. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct dpif_xdp_backoff gro_side    /* Of that. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    struct dpif_xdp_host_tunnel {
        atomic_int ifindex;             /* Of tunnels: that of the kernel's
                                         * device through which they go by the
                                         * routes of the host; 0: none. */
        atomic_bool fragments;          /* Such a device is to take packets
                                         * that came in fragments. */
        char name[IFNAMSIZ]             /* Of that. */
            OVS_GUARDED_BY(dpif_xdp_port_mutex);
        struct netdev *dev              /* That, for news of it; or NULL. */
            OVS_GUARDED_BY(dpif_xdp_port_mutex);
        struct dpif_xdp_backoff side OVS_GUARDED_BY(dpif_xdp_port_mutex);
    } host_tunnel;
    int mode                            /* enum oxdp_mode, if 'hook' has
                                         * XDP. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    int mode_asked                      /* The same. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    int warned_ifindex                  /* Whose filters were warned of. */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
    atomic_int hook;                    /* enum dpif_xdp_hook, not "auto":
                                         * where programs take its packets, or
                                         * none.  Read without the mutex. */

    /* Senders hold it for reading; opening and closing, with the port mutex
     * too, for writing. */
    struct ovs_rwlock tx_rwlock;        /* dpif_xdp_tx_rwlock. */
    struct dpif_xdp_rxq *rxqs OVS_GUARDED_BY(dpif_xdp_tx_rwlock);
    size_t n_rxqs OVS_GUARDED_BY(dpif_xdp_tx_rwlock);
    size_t n_txqs                       /* Of 'rxqs', from the first: those
                                         * that can send. */
        OVS_GUARDED_BY(dpif_xdp_tx_rwlock);
    bool open                           /* May be sent to. */
        OVS_GUARDED_BY(dpif_xdp_tx_rwlock);
    bool packet_socket                  /* 'rxqs' has one, no programs. */
        OVS_GUARDED_BY(dpif_xdp_tx_rwlock);
    bool shaped                         /* Send through the network stack. */
        OVS_GUARDED_BY(dpif_xdp_tx_rwlock);
    struct dpif_xdp_sender sender;      /* If 'is_device' without 'rxqs'. */
};

/* The ports of a datapath.  Writers hold the port mutex, readers are under
 * RCU. */
struct dpif_xdp_port_table {
    struct cmap by_number;
    struct seq *seq;                    /* Changes with the set of ports. */
    struct dpif_xdp_port *upcalls       /* See dpif_xdp_upcalls_port(). */
        OVS_GUARDED_BY(dpif_xdp_port_mutex);
};

/* Each port of 'DP', as PORT: under RCU, or with the port mutex. */
#define DPIF_XDP_FOR_EACH_PORT(PORT, DP)                                    \
    CMAP_FOR_EACH (PORT, node, &(DP)->port_table.by_number)

/* Whether there are tunnels of 'port' that go by the routes of the host.  Any
 * thread. */
bool dpif_xdp_host_tunnel_is(const struct dpif_xdp_port *port);

/* The port 'port_no', or the port of device 'devname', of 'dp', or NULL.
 * Valid until the caller quiesces. */
struct dpif_xdp_port *dpif_xdp_port_lookup(const struct dpif_xdp_dp *dp,
                                           odp_port_t port_no);
struct dpif_xdp_port *dpif_xdp_port_find_by_name(const struct dpif_xdp_dp *dp,
                                                 const char *devname);

/* Returns the port that follows '*position', which begins as zeros, and moves
 * it there; NULL after the last. */
struct dpif_xdp_port *dpif_xdp_port_next(const struct dpif_xdp_dp *,
                                         struct cmap_position *position);

/* How many ports there are. */
size_t dpif_xdp_n_ports(const struct dpif_xdp_dp *);

/* Take and release the lock around sending to 'port'. */
static inline void
dpif_xdp_tx_rdlock(const struct dpif_xdp_port *port)
    OVS_ACQ_RDLOCK(dpif_xdp_tx_rwlock)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_rwlock_rdlock(&port->tx_rwlock);
}

static inline void
dpif_xdp_tx_wrlock(const struct dpif_xdp_port *port)
    OVS_ACQ_WRLOCK(dpif_xdp_tx_rwlock)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_rwlock_wrlock(&port->tx_rwlock);
}

static inline void
dpif_xdp_tx_unlock(const struct dpif_xdp_port *port)
    OVS_RELEASES(dpif_xdp_tx_rwlock)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_rwlock_unlock(&port->tx_rwlock);
}

/* What that lock guards, for a caller with the port mutex, without which it is
 * not written. */
bool dpif_xdp_port_is_open(const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
bool dpif_xdp_port_is_shaped(const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
bool dpif_xdp_port_has_packet_socket(const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
size_t dpif_xdp_port_n_rxqs(const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
struct dpif_xdp_rxq *dpif_xdp_port_rxq(const struct dpif_xdp_port *, size_t i)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Gives 'port' the 'n' receive queues in 'rxqs', and returns those that it
 * had, through which no thread sends any more. */
struct dpif_xdp_rxq *dpif_xdp_port_set_rxqs(struct dpif_xdp_port *port,
                                            struct dpif_xdp_rxq *rxqs,
                                            size_t n)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Changes with the set of ports. */
struct seq *dpif_xdp_ports_seq(const struct dpif_xdp_dp *);

/* Adds 'port', whose number is free; takes it out: others may look at it until
 * they quiesce. */
void dpif_xdp_port_table_insert(struct dpif_xdp_dp *,
                                struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_port_table_remove(struct dpif_xdp_dp *,
                                struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* What receives the packets that tcx leaves to the engine: it is in no other
 * list.  NULL: no port has tcx. */
struct dpif_xdp_port *dpif_xdp_upcalls_port(const struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_set_upcalls_port(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

void dpif_xdp_port_table_init(struct dpif_xdp_port_table *);

/* Frees what 'table', which is empty, refers to. */
void dpif_xdp_port_table_destroy(struct dpif_xdp_port_table *table);

#endif /* ovs/datapath/port_table.h */
