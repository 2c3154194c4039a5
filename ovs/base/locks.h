/* SPDX-License-Identifier: Apache-2.0 */
/* All locks of ovs/, in the order in which a thread may take them.
 *
 *   lock                            who takes it, and for what
 *   ------------------------------  ------------------------------------------
 *   dpif_xdp_registry_mutex         the set of datapaths, their ends
 *   dp->port_mutex                  the main thread: ports, settings
 *   thread->mutex                   an engine thread, while it handles a
 *                                   burst; the main thread, to take or give
 *                                   queues
 *   dp->upcall.rwlock               for reading around each upcall; for
 *                                   writing while ofproto has upcalls disabled
 *   dump->mutex                     the position of a dump of flows
 *   fp->reclaim_mutex               waiting until programs are done with flows
 *   dp->flow_mutex                  writers of flows
 *   port->tx_rwlock                 senders for reading; for writing to open
 *                                   and close a port
 *   sender->mutex                   packets that wait for a socket
 *   dp->engine.mutex                the list of threads, for an instant
 *   dp->meters.mutex                writers of meters
 *   dp->bonds.mutex                 writers of bonds
 *   netdev->mutex                   the options, status and counts of a netdev
 *                                   of class "xdp"
 *   names_mutex                     addresses and MTUs of internal ports
 *   ct->mutex                       making the tables of connections
 *   ct->policy_mutex                writers of timeout policies
 *   the locks of core/              core/locks.h
 *   ct->expect_mutex                connections that helpers announced
 *   trace->mutex                    lines about traced packets
 *
 * An engine thread holds 'thread->mutex' also during upcalls.  So nothing that
 * operate(), execute() or the upcall callback reach may take it, nor what is
 * above it in the table.  'dp->flow_mutex' is never held while calling out of
 * this provider.
 *
 * "make check" compiles ovs/ with clang, which refuses code that takes two of
 * these in another order, or uses a member without its lock.  clang knows a
 * lock by the expression that names it, and 'dp->port_mutex' is not the same
 * to it in two functions; so what is annotated are names for "the lock of the
 * datapath in hand", which exist for clang only: nothing defines them. */
#ifndef DPIF_XDP_LOCKS_H
#define DPIF_XDP_LOCKS_H 1

#include "openvswitch/thread.h"

struct OVS_LOCKABLE dpif_xdp_lock {
    char nothing;
};

extern struct ovs_mutex dpif_xdp_registry_mutex;
extern struct dpif_xdp_lock dpif_xdp_port_mutex
    OVS_ACQ_AFTER(dpif_xdp_registry_mutex);
extern struct dpif_xdp_lock dpif_xdp_thread_mutex
    OVS_ACQ_AFTER(dpif_xdp_port_mutex);
extern struct dpif_xdp_lock dpif_xdp_upcall_rwlock
    OVS_ACQ_AFTER(dpif_xdp_thread_mutex);
extern struct dpif_xdp_lock dpif_xdp_dump_mutex
    OVS_ACQ_AFTER(dpif_xdp_upcall_rwlock);
extern struct dpif_xdp_lock dpif_xdp_reclaim_mutex
    OVS_ACQ_AFTER(dpif_xdp_dump_mutex);
extern struct dpif_xdp_lock dpif_xdp_flow_mutex
    OVS_ACQ_AFTER(dpif_xdp_reclaim_mutex);
extern struct dpif_xdp_lock dpif_xdp_tx_rwlock
    OVS_ACQ_AFTER(dpif_xdp_flow_mutex);
extern struct dpif_xdp_lock dpif_xdp_waiting_mutex
    OVS_ACQ_AFTER(dpif_xdp_tx_rwlock);
extern struct dpif_xdp_lock dpif_xdp_engine_mutex
    OVS_ACQ_AFTER(dpif_xdp_waiting_mutex);
extern struct dpif_xdp_lock dpif_xdp_meters_mutex
    OVS_ACQ_AFTER(dpif_xdp_engine_mutex);
extern struct dpif_xdp_lock dpif_xdp_bonds_mutex
    OVS_ACQ_AFTER(dpif_xdp_meters_mutex);
extern struct dpif_xdp_lock dpif_xdp_netdev_mutex
    OVS_ACQ_AFTER(dpif_xdp_bonds_mutex);
extern struct dpif_xdp_lock dpif_xdp_ct_mutex
    OVS_ACQ_AFTER(dpif_xdp_netdev_mutex);
extern struct dpif_xdp_lock dpif_xdp_policy_mutex
    OVS_ACQ_AFTER(dpif_xdp_ct_mutex);
extern struct dpif_xdp_lock dpif_xdp_expect_mutex
    OVS_ACQ_AFTER(dpif_xdp_policy_mutex);
extern struct dpif_xdp_lock dpif_xdp_trace_mutex
    OVS_ACQ_AFTER(dpif_xdp_expect_mutex);

#endif /* ovs/base/locks.h */
