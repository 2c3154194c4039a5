/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's threads: wait for frames, receive them in bursts, hand each
 * burst to dpif_xdp_input().
 *
 * A thread sleeps in epoll_wait() when its queues are empty.  After a wake-up
 * it polls the queues that had packets, and goes on polling a short while
 * after they ran empty, because under load the next burst is about to come.
 * How long adapts: a sleep that ends at once says "longer", one that lasts
 * says "shorter", so that a quiet switch costs nothing. */
#include <config.h>

#include "ovs/engine/engine_private.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/checksum.h"
#include "coverage.h"
#include "dp/record.h"
#include "netdev-linux-private.h"
#include "ovs/base/report.h"
#include "openvswitch/vlog.h"
#include "ovs-numa.h"
#include "socket-util.h"
#include "timeval.h"
#include "util.h"
#include "core/xsk/sock.h"
#include "core/xsk/umem.h"
#include "ovs/fastpath/fastpath.h"
#include "netdev.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_engine);

#define MAX_THREADS 64
#define MAX_CACHE_SIZE (1u << 20)       /* Entries of 8 bytes; grows to this. */
#define MAX_AUTO_THREADS 8          /* Without pmd-cpu-mask. */
#define MAX_EVENTS 64
#define MAX_SPIN_US 100             /* Longest polling without a packet. */
#define MIN_SPIN_US 5
#define STARVED_RETRY_MS 1          /* Waiting for frames to come back. */
#define MAX_BURSTS 4                /* That are sent together. */
#define HOUSEKEEPING_ROUNDS 64      /* Rounds between quiescing. */
#define COVERAGE_MS 1100            /* After that coverage_clear() does its
                                     * work again. */
#define PREFETCH_AHEAD 6            /* Packets. */

struct dpif_xdp_thread {
    struct dpif_xdp_dp *dp;
    int core_id;                        /* CPU, or -1: the kernel decides. */
    pthread_t pthread;
    int epoll_fd;
    int wake_fd;                        /* eventfd in 'epoll_fd'. */
    size_t n_rxqs, load;                /* Guarded by dp->port_mutex. */

    /* Held by the thread except while it sleeps or pauses. */
    struct ovs_mutex mutex;
    pthread_cond_t resumed;
    atomic_bool pause;                  /* Somebody waits for 'mutex'. */
    unsigned int generation;            /* Counts pauses. */
    bool exit;
    struct dpif_xdp_rxq **active;       /* Queues that are polled. */
    size_t n_active, allocated_active;

    /* Used by the thread; statistics read by others. */
    struct dpif_xdp_cache *cache;
    struct dpif_xdp_cls_stats cls_stats;
    bool expect_simple;                 /* See struct dpif_xdp_ctx. */
    long long int spin_us;
    bool counted;                       /* It may have coverage counts that
                                         * were not published. */
    atomic_uint64_t n_sleeps;
};

static void *thread_main(void *);
static void activate(struct dpif_xdp_thread *, struct dpif_xdp_rxq *);
static bool poll_active(struct dpif_xdp_thread *);
static bool poll_rxq(struct dpif_xdp_thread *, struct dpif_xdp_rxq *);
static void forget_quiet(struct dpif_xdp_thread *);
static void wait_for_packets(struct dpif_xdp_thread *, int timeout_ms);
static int rxq_receive(struct dpif_xdp_dp *, struct dpif_xdp_rxq *,
                       struct dp_packet_batch *, struct dpif_xdp_flow *[]);
static void complete_transmissions(struct dpif_xdp_dp *);

/* The only way back from actions to lookup. */
static void
recirculate(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch)
{
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

static void *
thread_main(void *thread_)
{
    struct dpif_xdp_thread *thread = thread_;
    long long int last_work = 0;
    unsigned int rounds = 0;

    if (thread->core_id >= 0) {
        ovs_numa_thread_setaffinity_core(thread->core_id);
    }

    coverage_clear();                   /* Its first call starts the clock. */
    ovs_mutex_lock(&thread->mutex);
    while (!thread->exit) {
        bool pause;

        atomic_read(&thread->pause, &pause);
        if (OVS_UNLIKELY(pause)) {
            ovs_mutex_cond_wait(&thread->resumed, &thread->mutex);
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
            /* Perhaps whoever is to send the next packet waits for this CPU. */
            sched_yield();
        }

        if (++rounds % HOUSEKEEPING_ROUNDS == 0) {
            wait_for_packets(thread, 0);
            complete_transmissions(thread->dp);
            coverage_try_clear();
            ovsrcu_quiesce();
        }
    }
    ovs_mutex_unlock(&thread->mutex);
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
    struct dpif_xdp_flow *matched[NETDEV_MAX_BURST];
    struct dp_packet_batch batch;
    struct dpif_xdp_ctx ctx;
    int n = rxq_receive(thread->dp, rxq, &batch, matched);

    if (!n) {
        return false;
    }
    dpif_xdp_ctx_init(&ctx, thread->dp, thread);
    dpif_xdp_input(&ctx, &batch, rxq->sock ? matched : NULL);
    for (int i = 1; i < MAX_BURSTS && n == NETDEV_MAX_BURST; i++) {
        n = rxq_receive(thread->dp, rxq, &batch, matched);
        if (n) {
            dpif_xdp_input(&ctx, &batch, rxq->sock ? matched : NULL);
        }
    }
    dpif_xdp_output_flush(&ctx);
    return true;
}

static bool
is_starved(const struct dpif_xdp_rxq *rxq)
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
        if (is_starved(thread->active[i])) {
            thread->active[n++] = thread->active[i];
        }
    }
    thread->n_active = n;
}

/* Waits until a queue has packets, then makes it active.  'timeout_ms' is -1
 * to wait for ever, 0 to have just a look. */
static void
wait_for_packets(struct dpif_xdp_thread *thread, int timeout_ms)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    struct epoll_event events[MAX_EVENTS];
    unsigned int generation = thread->generation;
    int n;

    if (timeout_ms) {
        long long int start, slept;
        uint64_t orig;

        atomic_add_relaxed(&thread->n_sleeps, 1, &orig);
        ovs_mutex_unlock(&thread->mutex);
        ovsrcu_quiesce_start();
        start = time_usec();
        n = epoll_wait(thread->epoll_fd, events, MAX_EVENTS, timeout_ms);
        if (!n && timeout_ms == COVERAGE_MS) {
            coverage_clear();
            thread->counted = false;
        }
        slept = time_usec() - start;
        ovsrcu_quiesce_end();
        ovs_mutex_lock(&thread->mutex);

        thread->spin_us = (slept < MAX_SPIN_US
                           ? MIN(thread->spin_us * 2, MAX_SPIN_US)
                           : MAX(thread->spin_us / 2, MIN_SPIN_US));
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
            activate(thread, events[i].data.ptr);
        } else {
            uint64_t count;

            ignore(read(thread->wake_fd, &count, sizeof count));
        }
    }
}

static void
activate(struct dpif_xdp_thread *thread, struct dpif_xdp_rxq *rxq)
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

/* Receives a burst from 'rxq' into 'batch', with the packets' metadata set,
 * and, from a socket, the flow that a program matched to each, or NULL, into
 * 'matched'.  Returns the number of packets. */
static int
rxq_receive(struct dpif_xdp_dp *dp, struct dpif_xdp_rxq *rxq,
            struct dp_packet_batch *batch, struct dpif_xdp_flow *matched[])
{
    struct dpif_xdp_port *port = rxq->port;
    struct dp_packet *packet;
    uint64_t orig;

    dp_packet_batch_init(batch);
    if (rxq->sock) {
        struct oxdp_desc descs[NETDEV_MAX_BURST];
        uint32_t n = oxdp_sock_rx(rxq->sock, descs, NETDEV_MAX_BURST);

        for (uint32_t i = 0; i < MIN(n, PREFETCH_AHEAD); i++) {
            dpif_xdp_packet_prefetch(dp->packets, &descs[i]);
        }
        for (uint32_t i = 0; i < n; i++) {
            const struct dp_record *record;

            if (i + PREFETCH_AHEAD < n) {
                dpif_xdp_packet_prefetch(dp->packets,
                                         &descs[i + PREFETCH_AHEAD]);
            }
            packet = dpif_xdp_packet_from_desc(dp->packets, &descs[i]);
            record = dp_packet_data(packet);
            dp_packet_pull(packet, record->len);
            pkt_metadata_init(&packet->md, u32_to_odp(record->in_port));
            if (record->has & DP_RECORD_RECIRC) {
                packet->md.recirc_id = record->recirc_id;
                packet->md.dp_hash = record->dp_hash;
                packet->md.skb_priority = record->skb_priority;
                packet->md.pkt_mark = record->skb_mark;
            }
            matched[i] = dpif_xdp_fastpath_matched(dp, record);
            if (port->local_stack) {
                oxdp_checksum_complete(dp_packet_data(packet),
                                       dp_packet_size(packet));
            }
            dp_packet_batch_add(batch, packet);
        }
    } else if (!netdev_rxq_recv(rxq->rxq, batch, NULL)) {
        DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
            pkt_metadata_init(&packet->md, port->port_no);
        }
    }
    atomic_add_relaxed(&rxq->n_packets, dp_packet_batch_size(batch), &orig);
    return dp_packet_batch_size(batch);
}

void
dpif_xdp_poll_port(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    for (size_t i = 0; i < port->n_rxqs; i++) {
        struct dpif_xdp_flow *matched[NETDEV_MAX_BURST];
        struct dp_packet_batch batch;
        struct dpif_xdp_ctx ctx;

        if (port->rxqs[i].fd < 0
            && rxq_receive(dp, &port->rxqs[i], &batch, matched)) {
            dpif_xdp_ctx_init(&ctx, dp, NULL);
            dpif_xdp_input(&ctx, &batch, NULL);
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
        ovs_rwlock_rdlock(&port->tx_rwlock);
        for (size_t i = 0; port->open && i < port->n_rxqs; i++) {
            if (port->rxqs[i].sock) {
                oxdp_sock_complete(port->rxqs[i].sock);
            }
        }
        if (port->sender.sock) {
            oxdp_sock_complete(port->sender.sock);
        }
        ovs_rwlock_unlock(&port->tx_rwlock);
    }
}

/* Stops 'thread' between two bursts until thread_resume(). */
static void
thread_pause(struct dpif_xdp_thread *thread)
    OVS_ACQUIRES(thread->mutex)
{
    uint64_t one = 1;

    atomic_store(&thread->pause, true);
    ignore(write(thread->wake_fd, &one, sizeof one));
    ovs_mutex_lock(&thread->mutex);
    thread->generation++;
}

static void
thread_resume(struct dpif_xdp_thread *thread)
    OVS_RELEASES(thread->mutex)
{
    atomic_store(&thread->pause, false);
    xpthread_cond_signal(&thread->resumed);
    ovs_mutex_unlock(&thread->mutex);
}

static struct dpif_xdp_thread *
thread_create(struct dpif_xdp_dp *dp, int core_id)
{
    struct dpif_xdp_thread *thread = xzalloc_cacheline(sizeof *thread);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

    thread->dp = dp;
    thread->core_id = core_id;
    thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->epoll_fd < 0 || thread->wake_fd < 0
        || epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, thread->wake_fd,
                     &event)) {
        ovs_abort(errno, "cannot create an engine thread");
    }
    ovs_mutex_init(&thread->mutex);
    xpthread_cond_init(&thread->resumed, NULL);
    atomic_init(&thread->pause, false);
    thread->spin_us = MIN_SPIN_US;
    thread->cache = dpif_xdp_cache_create(dp->engine.cache_size);
    thread->pthread = ovs_thread_create("xdp-engine", thread_main, thread);
    return thread;
}

static void
thread_stop(struct dpif_xdp_thread *thread)
{
    thread_pause(thread);
    thread->exit = true;
    thread_resume(thread);
    xpthread_join(thread->pthread, NULL);
}

static void
thread_destroy(struct dpif_xdp_thread *thread)
{
    dpif_xdp_cache_destroy(thread->cache);
    ovs_mutex_destroy(&thread->mutex);
    xpthread_cond_destroy(&thread->resumed);
    close(thread->wake_fd);
    close(thread->epoll_fd);
    free(thread->active);
    free_cacheline(thread);
}

static void
add_thread(struct dpif_xdp_dp *dp, int core_id)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_thread *thread = thread_create(dp, core_id);

    ovs_mutex_lock(&dp->engine.mutex);
    dp->engine.threads[dp->engine.n_threads++] = thread;
    ovs_mutex_unlock(&dp->engine.mutex);
}

/* Starts the threads that 'dp->engine.cpu_mask' asks for. */
static void
threads_start(struct dpif_xdp_dp *dp)
{
    struct ovs_numa_dump *cores
        = dp->engine.cpu_mask ? ovs_numa_dump_cores_with_cmask(dp->engine.cpu_mask) : NULL;
    size_t n = cores ? MIN(ovs_numa_dump_count(cores), MAX_THREADS) : 0;

    dp->engine.threads = xcalloc(MAX_THREADS, sizeof *dp->engine.threads);
    if (n) {
        struct ovs_numa_info_core *core;

        FOR_EACH_CORE_ON_DUMP (core, cores) {
            if (dp->engine.n_threads < n) {
                add_thread(dp, core->core_id);
            }
        }
    } else {
        n = MAX(1, MIN(count_cpu_cores(), MAX_AUTO_THREADS));
        while (dp->engine.n_threads < n) {
            add_thread(dp, -1);
        }
    }
    ovs_numa_dump_destroy(cores);
    VLOG_INFO("%s: %"PRIuSIZE" engine threads%s%s", dp->name, dp->engine.n_threads,
              dp->engine.cpu_mask ? ", pmd-cpu-mask " : "",
              dp->engine.cpu_mask ? dp->engine.cpu_mask : "");
}

void
dpif_xdp_threads_stop(struct dpif_xdp_dp *dp)
{
    while (dp->engine.n_threads) {
        struct dpif_xdp_thread *thread = dp->engine.threads[dp->engine.n_threads - 1];

        thread_stop(thread);

        /* What it counted must not be lost, nor be seen twice. */
        ovs_mutex_lock(&dp->engine.mutex);
        dp->engine.n_threads--;
        dpif_xdp_cls_stats_add(&dp->engine.cls_stats, &thread->cls_stats);
        ovs_mutex_unlock(&dp->engine.mutex);
        thread_destroy(thread);
    }
    free(dp->engine.threads);
    dp->engine.threads = NULL;
}

/* Replaces the threads after a change of configuration. */
static void
replace_threads(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_port *port;

    if (!dp->engine.n_threads) {
        return;                         /* They start with the first port. */
    }
    dpif_xdp_threads_stop(dp);
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        for (size_t i = 0; i < port->n_rxqs; i++) {
            port->rxqs[i].thread = NULL;
        }
        dpif_xdp_threads_add_port(dp, port);
    }
    port = dpif_xdp_upcalls_port(dp);
    if (port) {
        for (size_t i = 0; i < port->n_rxqs; i++) {
            port->rxqs[i].thread = NULL;
        }
        dpif_xdp_threads_add_port(dp, port);
    }
}

void
dpif_xdp_engine_init(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_init(&dp->engine.mutex);
    dp->engine.cache_size = MAX_CACHE_SIZE;
}

void
dpif_xdp_engine_destroy(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_destroy(&dp->engine.mutex);
    free(dp->engine.cpu_mask);
}

void
dpif_xdp_threads_set_cpu_mask(struct dpif_xdp_dp *dp, const char *cpu_mask)
{
    if (!nullable_string_is_equal(dp->engine.cpu_mask, cpu_mask)) {
        free(dp->engine.cpu_mask);
        dp->engine.cpu_mask = nullable_xstrdup(cpu_mask);
        replace_threads(dp);
    }
}

void
dpif_xdp_threads_set_cache_size(struct dpif_xdp_dp *dp, uint32_t size)
{
    if (size != dp->engine.cache_size) {
        dp->engine.cache_size = size;
        replace_threads(dp);
    }
}

uint32_t
dpif_xdp_threads_cache_size(const struct dpif_xdp_dp *dp)
{
    return dp->engine.cache_size;
}

/* What a queue is expected to keep a thread busy, compared with others. */
static size_t
rxq_load(const struct dpif_xdp_rxq *rxq)
{
    return rxq->sock ? 16 : 1;
}

void
dpif_xdp_threads_add_port(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    for (size_t i = 0; i < port->n_rxqs; i++) {
        struct dpif_xdp_rxq *rxq = &port->rxqs[i];
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = rxq };
        struct dpif_xdp_thread *thread;

        if (rxq->fd < 0) {
            continue;
        }
        if (!dp->engine.n_threads) {
            threads_start(dp);
        }
        thread = dp->engine.threads[0];
        for (size_t j = 1; j < dp->engine.n_threads; j++) {
            if (dp->engine.threads[j]->load < thread->load) {
                thread = dp->engine.threads[j];
            }
        }
        rxq->thread = thread;
        thread->n_rxqs++;
        thread->load += rxq_load(rxq);
        if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, rxq->fd, &event)) {
            VLOG_ERR("%s: cannot wait for packets (%s)",
                     netdev_get_name(port->dev), ovs_strerror(errno));
        }
        if (is_starved(rxq)) {
            thread_pause(thread);
            activate(thread, rxq);
            thread_resume(thread);
        }
    }
}

void
dpif_xdp_threads_remove_port(struct dpif_xdp_port *port)
{
    for (size_t i = 0; i < port->n_rxqs; i++) {
        struct dpif_xdp_rxq *rxq = &port->rxqs[i];
        struct dpif_xdp_thread *thread = rxq->thread;

        if (!thread) {
            continue;
        }
        thread_pause(thread);
        epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, rxq->fd, NULL);
        for (size_t j = 0; j < thread->n_active; j++) {
            if (thread->active[j] == rxq) {
                thread->active[j] = thread->active[--thread->n_active];
                break;
            }
        }
        thread->n_rxqs--;
        thread->load -= rxq_load(rxq);
        thread_resume(thread);
        rxq->thread = NULL;
    }
}

void
dpif_xdp_threads_get_stats(struct dpif_xdp_dp *dp,
                           struct dpif_xdp_cls_stats *sum)
{
    ovs_mutex_lock(&dp->engine.mutex);
    dpif_xdp_cls_stats_add(sum, &dp->engine.cls_stats);
    for (size_t i = 0; i < dp->engine.n_threads; i++) {
        dpif_xdp_cls_stats_add(sum, &dp->engine.threads[i]->cls_stats);
    }
    ovs_mutex_unlock(&dp->engine.mutex);
}

/* CPU time that 'thread' has used, ms. */
static uint64_t
cpu_ms(const struct dpif_xdp_thread *thread)
{
    struct timespec used = { 0, 0 };
    clockid_t clock;

    if (!pthread_getcpuclockid(thread->pthread, &clock)) {
        clock_gettime(clock, &used);
    }
    return timespec_to_msec(&used);
}

void
dpif_xdp_threads_report(const struct dpif_xdp_dp *dp, struct json *report)
{
    struct json *threads = dpif_xdp_report_array(report, "threads");

    for (size_t i = 0; i < dp->engine.n_threads; i++) {
        struct json *entry = dpif_xdp_report_element(threads);
        struct dpif_xdp_thread *thread = dp->engine.threads[i];
        uint64_t n_sleeps;

        atomic_read_relaxed(&thread->n_sleeps, &n_sleeps);
        dpif_xdp_report_int(entry, "thread", i);
        if (thread->core_id >= 0) {
            dpif_xdp_report_int(entry, "cpu", thread->core_id);
        }
        dpif_xdp_report_int(entry, "queues", thread->n_rxqs);
        dpif_xdp_report_int(entry, "sleeps", n_sleeps);
        dpif_xdp_report_int(entry, "cpu_ms", cpu_ms(thread));
    }
}
