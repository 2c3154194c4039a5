/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's threads: wait for frames, receive them in bursts, hand each
 * burst to dpif_xdp_input().
 *
 * A thread sleeps in epoll_wait() when its queues are empty.  After a wake-up
 * it polls the queues that had packets, and goes on polling a short while
 * after they ran empty, because under load the next burst is about to come.
 * A sleep that ends at once makes this time longer, a long sleep makes it
 * shorter: a quiet switch costs nothing. */
#include <config.h>

#include "ovs/engine/thread.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/checksum.h"
#include "core/xsk/sock.h"
#include "core/xsk/umem.h"
#include "coverage.h"
#include "dp/record.h"
#include "netdev-linux-private.h"
#include "netdev.h"
#include "ovs-numa.h"
#include "ovs/base/compat.h"
#include "ovs/base/usdt.h"
#include "ovs/fastpath/compile.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/state/ct.h"
#include "socket-util.h"
#include "timeval.h"
#include "util.h"

#define MAX_EVENTS 64
#define MAX_SPIN_US 100             /* Longest polling without a packet. */
#define STARVED_RETRY_MS 1          /* Waiting for frames to come back. */
#define MAX_BURSTS 4                /* That are sent together. */
#define HOUSEKEEPING_ROUNDS 64      /* Rounds between quiescing. */
#define COVERAGE_MS 1100            /* After that coverage_clear() does its
                                     * work again. */
#define PREFETCH_AHEAD 6            /* Packets. */

static bool poll_active(struct dpif_xdp_thread *thread)
    OVS_REQUIRES(dpif_xdp_thread_mutex);
static bool poll_rxq(struct dpif_xdp_thread *thread, struct dpif_xdp_rxq *)
    OVS_REQUIRES(dpif_xdp_thread_mutex);
static void forget_quiet(struct dpif_xdp_thread *thread)
    OVS_REQUIRES(dpif_xdp_thread_mutex);
static void wait_for_packets(struct dpif_xdp_thread *thread, int timeout_ms)
    OVS_REQUIRES(dpif_xdp_thread_mutex);
struct burst;
static int rxq_receive(struct dpif_xdp_dp *, struct dpif_xdp_rxq *,
                       struct burst *);
static void handle_burst(struct dpif_xdp_ctx *, struct burst *);
static void complete_transmissions(struct dpif_xdp_dp *);

/* Packets that came together. */
struct burst {
    struct dp_packet_batch packets;
    bool has_records;                   /* From a program: there is ... */
    struct dpif_xdp_matched matched[NETDEV_MAX_BURST];  /* ... this of it. */
    uint32_t traced[NETDEV_MAX_BURST];  /* Number, or 0 if it is not traced. */
    uint32_t any_traced;                /* Not 0: some are. */
};

/* The only way back from actions to lookup. */
static void
recirculate(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch)
{
#if DPIF_XDP_SETTLES_TUNNELS
    size_t n = dp_packet_batch_size(batch), i;
    struct dp_packet *packet;

    DP_PACKET_BATCH_REFILL_FOR_EACH (i, n, packet, batch) {
        if (OVS_LIKELY(dpif_xdp_packet_settle_tunnel(packet))) {
            dp_packet_batch_add(batch, packet);
        } else {
            dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_TUNNEL_PUSH, 1);
            dp_packet_delete(packet);
        }
    }
#endif
    dpif_xdp_input(ctx, batch, NULL);
}

void
dpif_xdp_ctx_init(struct dpif_xdp_ctx *ctx, struct dpif_xdp_dp *dp,
                  struct dpif_xdp_thread *thread)
{
    ctx->dp = dp;
    ctx->cache = thread ? thread->cache : NULL;
    ctx->cls_stats = thread ? &thread->cls_stats : &dp->engine.cls_stats;
    ctx->expect_simple = thread ? &thread->expect_simple : NULL;
    ctx->now = time_usec();
    ctx->tx_queue = ovsthread_id_self();
    ctx->via_stack = false;
    ctx->recirculate = recirculate;
    ctx->n_out = 0;
}

static void
thread_lock(struct dpif_xdp_thread *thread)
    OVS_ACQUIRES(dpif_xdp_thread_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&thread->mutex);
}

static void
thread_unlock(struct dpif_xdp_thread *thread)
    OVS_RELEASES(dpif_xdp_thread_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&thread->mutex);
}

static void
wait_until_resumed(struct dpif_xdp_thread *thread)
    OVS_REQUIRES(dpif_xdp_thread_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_cond_wait(&thread->resumed, &thread->mutex);
}

void *
dpif_xdp_thread_main(void *thread_)
{
    struct dpif_xdp_thread *thread = thread_;
    long long int last_work = 0;
    unsigned int rounds = 0;

    if (thread->core_id >= 0) {
        ovs_numa_thread_setaffinity_core(thread->core_id);
    }

    coverage_clear();                   /* Its first call starts the clock. */
    thread_lock(thread);
    while (!thread->exit) {
        bool pause;

        atomic_read(&thread->pause, &pause);
        if (OVS_UNLIKELY(pause)) {
            wait_until_resumed(thread);
            continue;
        }

        if (thread->n_active && poll_active(thread)) {
            last_work = time_usec();
            thread->counted = true;
        } else if (!thread->n_active
                   || time_usec() - last_work >= thread->spin_us) {
            complete_transmissions(thread->dp);
            forget_quiet(thread);
            wait_for_packets(thread, thread->n_active ? STARVED_RETRY_MS
                             : thread->counted ? COVERAGE_MS : -1);
            last_work = time_usec();
            rounds = 0;
        } else if (thread->core_id < 0) {
            /* The thread that sends the next packet may wait for this CPU. */
            sched_yield();
        }

        if (++rounds % HOUSEKEEPING_ROUNDS == 0) {
            wait_for_packets(thread, 0);
            complete_transmissions(thread->dp);
            coverage_try_clear();
            ovsrcu_quiesce();
        }
    }
    thread_unlock(thread);
    return NULL;
}

/* Polls each active queue once.  Returns true if a packet came. */
static bool
poll_active(struct dpif_xdp_thread *thread)
{
    bool any = false;

    for (size_t i = 0; i < thread->n_active; i++) {
        any |= poll_rxq(thread, thread->active[i]);
    }
    return any;
}

/* Handles what waits in 'rxq', up to a few bursts: sending takes system calls,
 * which are cheaper for many packets at once. */
static bool
poll_rxq(struct dpif_xdp_thread *thread, struct dpif_xdp_rxq *rxq)
{
    struct dpif_xdp_ctx ctx;
    struct burst burst;
    int n = rxq_receive(thread->dp, rxq, &burst);

    if (!n) {
        return false;
    }
    dpif_xdp_ctx_init(&ctx, thread->dp, thread);
    handle_burst(&ctx, &burst);
    for (int i = 1; i < MAX_BURSTS && n == NETDEV_MAX_BURST; i++) {
        n = rxq_receive(thread->dp, rxq, &burst);
        if (n) {
            handle_burst(&ctx, &burst);
        }
    }
    dpif_xdp_output_flush(&ctx);
    return true;
}

/* Handles a burst: a traced packet alone, so that what happens meanwhile is
 * known to happen to it. */
static void
handle_burst(struct dpif_xdp_ctx *ctx, struct burst *burst)
{
    size_t n = dp_packet_batch_size(&burst->packets);

    if (OVS_LIKELY(!burst->any_traced)) {
        dpif_xdp_input(ctx, &burst->packets,
                       burst->has_records ? burst->matched : NULL);
        return;
    }
    for (size_t first = 0, behind; first < n; first = behind) {
        struct dp_packet_batch part;

        dp_packet_batch_init(&part);
        behind = first;
        do {
            dp_packet_batch_add(&part, burst->packets.packets[behind++]);
        } while (behind < n && !burst->traced[first]
                 && !burst->traced[behind]);
        if (burst->traced[first]) {
            dpif_xdp_output_flush(ctx);
            *dpif_xdp_traced_get() = burst->traced[first];
        }
        dpif_xdp_input(ctx, &part, burst->has_records
                       ? &burst->matched[first] : NULL);
        if (burst->traced[first]) {
            dpif_xdp_output_flush(ctx);
            *dpif_xdp_traced_get() = 0;
        }
    }
}

bool
dpif_xdp_rxq_is_starved(const struct dpif_xdp_rxq *rxq)
{
    return rxq->sock && oxdp_sock_starved(rxq->sock);
}

/* Leaves only those queues active that epoll will never report, because the
 * kernel has no frame to receive into: polling refills them as soon as frames
 * are free. */
static void
forget_quiet(struct dpif_xdp_thread *thread)
{
    size_t n = 0;

    for (size_t i = 0; i < thread->n_active; i++) {
        if (dpif_xdp_rxq_is_starved(thread->active[i])) {
            thread->active[n++] = thread->active[i];
        }
    }
    thread->n_active = n;
}

/* Waits until a queue has packets, then makes it active.  'timeout_ms' is -1
 * to wait for ever, 0 to have just a look. */
static void
wait_for_packets(struct dpif_xdp_thread *thread, int timeout_ms)
{
    struct epoll_event events[MAX_EVENTS];
    unsigned int generation = thread->generation;
    int n;

    if (timeout_ms) {
        long long int start, slept;
        uint64_t orig;

        atomic_add_relaxed(&thread->n_sleeps, 1, &orig);
        thread_unlock(thread);
        ovsrcu_quiesce_start();
        start = time_usec();
        n = epoll_wait(thread->epoll_fd, events, MAX_EVENTS, timeout_ms);
        if (!n && timeout_ms == COVERAGE_MS) {
            coverage_clear();
            thread->counted = false;
        }
        slept = time_usec() - start;
        ovsrcu_quiesce_end();
        thread_lock(thread);

        thread->spin_us = (slept < MAX_SPIN_US
                           ? MIN(thread->spin_us * 2, MAX_SPIN_US)
                           : MAX(thread->spin_us / 2, DPIF_XDP_MIN_SPIN_US));
    } else {
        n = epoll_wait(thread->epoll_fd, events, MAX_EVENTS, 0);
    }

    if (generation != thread->generation) {
        /* Queues may have gone in the meantime.  Those that have packets are
         * found again. */
        return;
    }
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr) {
            dpif_xdp_thread_activate(thread, events[i].data.ptr);
        } else {
            uint64_t count;

            ignore(read(thread->wake_fd, &count, sizeof count));
        }
    }
}

void
dpif_xdp_thread_activate(struct dpif_xdp_thread *thread,
                         struct dpif_xdp_rxq *rxq)
{
    for (size_t i = 0; i < thread->n_active; i++) {
        if (thread->active[i] == rxq) {
            return;
        }
    }
    if (thread->n_active == thread->allocated_active) {
        thread->active = x2nrealloc(thread->active, &thread->allocated_active,
                                    sizeof *thread->active);
    }
    thread->active[thread->n_active++] = rxq;
}

/* Traces what of 'burst' is wanted. */
static void
trace_burst(struct dpif_xdp_dp *dp, struct burst *burst)
{
    struct dp_packet *packet;

    DP_PACKET_BATCH_FOR_EACH (i, packet, &burst->packets) {
        burst->traced[i] = dpif_xdp_trace_look(dp, packet,
                                               !burst->has_records);
        burst->any_traced |= burst->traced[i];
    }
}

void
dpif_xdp_take_record(const struct dp_record *record,
                     const struct dp_record_ct *ct, struct pkt_metadata *md)
{
    pkt_metadata_init(md, u32_to_odp(record->in_port));
    if (record->has & DP_RECORD_RECIRC) {
        md->recirc_id = record->recirc_id;
        md->dp_hash = record->dp_hash;
        md->skb_priority = record->skb_priority;
        md->pkt_mark = record->skb_mark;
    }
    if (record->has & DP_RECORD_TUNNEL) {
        dpif_xdp_compile_get_tunnel(record, md);
    }
    if (record->has & DP_RECORD_CT) {
        dpif_xdp_ct_take_record(ct, md);
    }
}

/* Receives a burst from 'rxq', with the packets' metadata set.  Returns the
 * number of packets. */
static int
rxq_receive(struct dpif_xdp_dp *dp, struct dpif_xdp_rxq *rxq,
            struct burst *burst)
{
    struct dp_packet_batch *batch = &burst->packets;
    struct dpif_xdp_port *port = rxq->port;
    struct dp_packet *packet;
    uint64_t orig;

    dp_packet_batch_init(batch);
    burst->has_records = rxq->sock != NULL;
    burst->any_traced = 0;
    if (rxq->sock) {
        struct oxdp_desc descs[NETDEV_MAX_BURST];
        uint32_t n = oxdp_sock_rx(rxq->sock, descs, NETDEV_MAX_BURST);
        uint32_t n_buffers;

        for (uint32_t i = 0; i < MIN(n, PREFETCH_AHEAD); i++) {
            dpif_xdp_packet_prefetch(dp->packets, &descs[i]);
        }
        for (uint32_t i = 0; i < n; i += n_buffers) {
            const struct dp_record *record;

            if (i + PREFETCH_AHEAD < n) {
                dpif_xdp_packet_prefetch(dp->packets,
                                         &descs[i + PREFETCH_AHEAD]);
            }
            n_buffers = 1;
            if (OVS_LIKELY(!descs[i].more)) {
                packet = dpif_xdp_packet_from_desc(dp->packets, &descs[i]);
            } else {
                while (descs[i + n_buffers - 1].more) {
                    n_buffers++;
                }
                packet = dpif_xdp_packet_from_buffers(dp->packets, &descs[i],
                                                     n_buffers);
            }
            record = dp_packet_data(packet);
            dp_packet_pull(packet, record->len);
            /* What is tracked is at the record's end. */
            dpif_xdp_take_record(record, (const struct dp_record_ct *)
                                         dp_packet_data(packet) - 1,
                                 &packet->md);
            burst->matched[dp_packet_batch_size(batch)]
                = (struct dpif_xdp_matched) {
                    .flow = dpif_xdp_fastpath_matched(dp, record),
                    .n_tracked = record->tracked,
                };
            burst->traced[dp_packet_batch_size(batch)] = record->trace;
            burst->any_traced |= record->trace;
            dpif_xdp_usdt_slow_path(record->in_port, record->reason, packet);
            if (rxq->local_stack) {
                oxdp_checksum_complete(dp_packet_data(packet),
                                       dp_packet_size(packet));
            }
            dp_packet_batch_add(batch, packet);
        }
    } else if (!netdev_rxq_recv(rxq->rxq, batch, NULL)) {
        DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
            pkt_metadata_init(&packet->md, port->port_no);
            if (rxq->local_stack) {
                oxdp_checksum_complete(dp_packet_data(packet),
                                       dp_packet_size(packet));
            }
        }
    }
    if (dpif_xdp_trace_is_on(&dp->trace, !rxq->sock)) {
        trace_burst(dp, burst);
    }
    atomic_add_relaxed(&rxq->n_packets, dp_packet_batch_size(batch), &orig);
    return dp_packet_batch_size(batch);
}

void
dpif_xdp_poll_port(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    for (size_t i = 0; i < dpif_xdp_port_n_rxqs(port); i++) {
        struct dpif_xdp_rxq *rxq = dpif_xdp_port_rxq(port, i);
        struct dpif_xdp_ctx ctx;
        struct burst burst;

        if (rxq->fd < 0 && rxq_receive(dp, rxq, &burst)) {
            dpif_xdp_ctx_init(&ctx, dp, NULL);
            handle_burst(&ctx, &burst);
            dpif_xdp_output_flush(&ctx);
        }
    }
}

/* When frames run short, collects those that have been sent. */
static void
complete_transmissions(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port;
    struct oxdp_umem *umem;

    if (!dp->packets) {
        return;
    }
    dpif_xdp_packets_reclaim(dp->packets);
    umem = dpif_xdp_packets_umem(dp->packets);
    if (oxdp_umem_n_free(umem) >= oxdp_umem_n_frames(umem) / 8) {
        return;
    }
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        dpif_xdp_tx_rdlock(port);
        for (size_t i = 0; port->open && i < port->n_rxqs; i++) {
            if (port->rxqs[i].sock) {
                oxdp_sock_complete(port->rxqs[i].sock);
            }
        }
        if (port->sender.sock) {
            oxdp_sock_complete(port->sender.sock);
        }
        dpif_xdp_tx_unlock(port);
    }
}
