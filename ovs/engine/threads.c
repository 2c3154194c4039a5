/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's threads as a set: starting and stopping them, and which of them
 * polls which queue. */
#include <config.h>

#include "ovs/engine/thread.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/xsk/sock.h"
#include "netdev.h"
#include "openvswitch/vlog.h"
#include "ovs-numa.h"
#include "ovs/base/compat.h"
#include "ovs/base/report.h"
#include "ovs/base/threads.h"
#include "socket-util.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_engine);

#define MAX_THREADS 64
#define MAX_AUTO_THREADS 8              /* Without pmd-cpu-mask. */
#define MAX_CACHE_SIZE (1u << 20)       /* Entries of 8 bytes; grows to
                                         * this. */

static void
engine_lock(const struct dpif_xdp_dp *dp)
    OVS_ACQUIRES(dpif_xdp_engine_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&dp->engine.mutex);
}

static void
engine_unlock(const struct dpif_xdp_dp *dp)
    OVS_RELEASES(dpif_xdp_engine_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&dp->engine.mutex);
}

/* Stops 'thread' between two bursts until thread_resume(). */
static void
thread_pause(struct dpif_xdp_thread *thread)
    OVS_ACQUIRES(dpif_xdp_thread_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    uint64_t one = 1;

    atomic_store(&thread->pause, true);
    ignore(write(thread->wake_fd, &one, sizeof one));
    ovs_mutex_lock(&thread->mutex);
    thread->generation++;
}

static void
thread_resume(struct dpif_xdp_thread *thread)
    OVS_RELEASES(dpif_xdp_thread_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    atomic_store(&thread->pause, false);
    xpthread_cond_signal(&thread->resumed);
    ovs_mutex_unlock(&thread->mutex);
}

static void
thread_stop(struct dpif_xdp_thread *thread)
{
    thread_pause(thread);
    thread->exit = true;
    thread_resume(thread);
    xpthread_join(thread->pthread, NULL);
}

/* Creates what a thread waits on.  Returns 0 or a positive errno. */
static int
open_events(struct dpif_xdp_thread *thread)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

    thread->wake_fd = -1;
    thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (thread->epoll_fd < 0) {
        return errno;
    }
    thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return (thread->wake_fd < 0
            || epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, thread->wake_fd,
                         &event)
            ? errno : 0);
}

static void
close_events(struct dpif_xdp_thread *thread)
{
    if (thread->wake_fd >= 0) {
        close(thread->wake_fd);
    }
    if (thread->epoll_fd >= 0) {
        close(thread->epoll_fd);
    }
}

/* Starts a thread of 'dp', bound to a CPU unless 'core_id' is -1. */
static int
add_thread(struct dpif_xdp_dp *dp, int core_id)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_thread *thread = xzalloc_cacheline(sizeof *thread);
    int error = open_events(thread);

    error = error ? error : dpif_xdp_try_thread();
    if (error) {
        close_events(thread);
        free_cacheline(thread);
        return error;
    }
    thread->dp = dp;
    thread->core_id = core_id;
    ovs_mutex_init(&thread->mutex);
    xpthread_cond_init(&thread->resumed, NULL);
    atomic_init(&thread->pause, false);
    thread->spin_us = DPIF_XDP_MIN_SPIN_US;
    thread->cache = dpif_xdp_cache_create(dp->engine.cache_size);
    thread->pthread = ovs_thread_create("xdp-engine", dpif_xdp_thread_main,
                                        thread);
    engine_lock(dp);
    dp->engine.threads[dp->engine.n_threads++] = thread;
    engine_unlock(dp);
    return 0;
}

static void
thread_destroy(struct dpif_xdp_thread *thread)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared. */
{
    dpif_xdp_cache_destroy(thread->cache);
    ovs_mutex_destroy(&thread->mutex);
    xpthread_cond_destroy(&thread->resumed);
    close_events(thread);
    free(thread->active);
    free_cacheline(thread);
}

static size_t
n_threads(const struct dpif_xdp_dp *dp)
{
    size_t n;

    engine_lock(dp);
    n = dp->engine.n_threads;
    engine_unlock(dp);
    return n;
}

/* Starts the threads that 'dp->engine.cpu_mask' asks for.  Returns 0, or why
 * not all could be started. */
static int
start_all(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *cpu_mask = dp->engine.cpu_mask;
    struct ovs_numa_dump *cores
        = cpu_mask ? ovs_numa_dump_cores_with_cmask(cpu_mask) : NULL;
    size_t n = cores ? MIN(ovs_numa_dump_count(cores), MAX_THREADS) : 0;
    int error = 0;

    if (n) {
        struct ovs_numa_info_core *core;

        FOR_EACH_CORE_ON_DUMP (core, cores) {
            if (!error && n_threads(dp) < n) {
                error = add_thread(dp, core->core_id);
            }
        }
    } else {
        n = MAX(1, MIN(count_cpu_cores(), MAX_AUTO_THREADS));
        while (!error && n_threads(dp) < n) {
            error = add_thread(dp, -1);
        }
    }
    ovs_numa_dump_destroy(cores);
    return error;
}

/* Starts the threads.  Returns 0 if there is at least one. */
static int
start_threads(struct dpif_xdp_dp *dp, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *cpu_mask = dp->engine.cpu_mask;
    int error = start_all(dp);
    size_t n = n_threads(dp);

    if (!n) {
        *errorp = xasprintf("cannot start an engine thread (%s): raise the "
                            "limits on processes and open files (\"ulimit "
                            "-u\", \"ulimit -n\"; TasksMax and LimitNOFILE "
                            "of systemd)", ovs_strerror(error));
        return error;
    }
    if (error) {
        VLOG_WARN("%s: cannot start more than %"PRIuSIZE" engine threads "
                  "(%s): raise the limits on processes and open files",
                  dp->name, n, ovs_strerror(error));
    }
    VLOG_INFO("%s: %"PRIuSIZE" engine threads%s%s", dp->name, n,
              cpu_mask ? ", pmd-cpu-mask " : "", cpu_mask ? cpu_mask : "");
    return 0;
}

/* Returns the thread that was started last, or NULL. */
static struct dpif_xdp_thread *
last_thread(const struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_thread *thread;
    size_t n;

    engine_lock(dp);
    n = dp->engine.n_threads;
    thread = n ? dp->engine.threads[n - 1] : NULL;
    engine_unlock(dp);
    return thread;
}

void
dpif_xdp_threads_stop(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_thread *thread;

    while ((thread = last_thread(dp)) != NULL) {
        thread_stop(thread);

        /* What it counted must not be lost, nor be seen twice. */
        engine_lock(dp);
        dp->engine.n_threads--;
        dpif_xdp_cls_stats_add(&dp->engine.cls_stats, &thread->cls_stats);
        engine_unlock(dp);
        thread_destroy(thread);
    }
}

/* What a queue is expected to keep a thread busy, compared with others. */
static size_t
rxq_load(const struct dpif_xdp_rxq *rxq)
{
    return rxq->sock ? 16 : 1;
}

/* Returns the thread with the least to do. */
static struct dpif_xdp_thread *
idlest_thread(const struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_thread *idlest;

    engine_lock(dp);
    idlest = dp->engine.threads[0];
    for (size_t i = 1; i < dp->engine.n_threads; i++) {
        if (dp->engine.threads[i]->load < idlest->load) {
            idlest = dp->engine.threads[i];
        }
    }
    engine_unlock(dp);
    return idlest;
}

/* Has 'thread' wait for the packets of 'rxq'. */
static int
add_rxq(struct dpif_xdp_thread *thread, struct dpif_xdp_rxq *rxq)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = rxq };

    if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, rxq->fd, &event)) {
        return errno;
    }
    rxq->thread = thread;
    thread->n_rxqs++;
    thread->load += rxq_load(rxq);
    if (dpif_xdp_rxq_is_starved(rxq)) {
        thread_pause(thread);
        dpif_xdp_thread_activate(thread, rxq);
        thread_resume(thread);
    }
    return 0;
}

int
dpif_xdp_threads_add_port(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                          char **errorp)
{
    for (size_t i = 0; i < dpif_xdp_port_n_rxqs(port); i++) {
        struct dpif_xdp_rxq *rxq = dpif_xdp_port_rxq(port, i);
        int error;

        if (rxq->fd < 0) {
            continue;
        }
        if (!n_threads(dp)) {
            error = start_threads(dp, errorp);
            if (error) {
                return error;
            }
        }
        error = add_rxq(idlest_thread(dp), rxq);
        if (error) {
            *errorp = xasprintf("cannot wait for packets of %s (%s): raise "
                                "the limit fs.epoll.max_user_watches",
                                netdev_get_name(port->dev),
                                ovs_strerror(error));
            dpif_xdp_threads_remove_port(port);
            return error;
        }
    }
    return 0;
}

void
dpif_xdp_threads_remove_port(struct dpif_xdp_port *port)
{
    for (size_t i = 0; i < dpif_xdp_port_n_rxqs(port); i++) {
        struct dpif_xdp_rxq *rxq = dpif_xdp_port_rxq(port, i);
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

/* Gives the queues of 'port', whose threads are gone, to others.  If that
 * fails, the port is opened again, which says why. */
static void
give_again(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    char *text = NULL;

    for (size_t i = 0; i < dpif_xdp_port_n_rxqs(port); i++) {
        dpif_xdp_port_rxq(port, i)->thread = NULL;
    }
    if (dpif_xdp_threads_add_port(dp, port, &text)) {
        VLOG_ERR("%s: %s", netdev_get_name(port->dev), text);
        port->config_seq = UINT64_MAX;
        free(text);
    }
}

/* Replaces the threads after a change of configuration. */
static void
replace_threads(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_port *port;

    if (!n_threads(dp)) {
        return;                         /* They start with the first port. */
    }
    dpif_xdp_threads_stop(dp);
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        give_again(dp, port);
    }
    port = dpif_xdp_upcalls_port(dp);
    if (port) {
        give_again(dp, port);
    }
}

void
dpif_xdp_engine_init(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_init(&dp->engine.mutex);
    dp->engine.threads = xcalloc(MAX_THREADS, sizeof *dp->engine.threads);
    dp->engine.cache_size = MAX_CACHE_SIZE;
}

void
dpif_xdp_engine_destroy(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_destroy(&dp->engine.mutex);
    free(dp->engine.threads);
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

void
dpif_xdp_threads_get_stats(struct dpif_xdp_dp *dp,
                           struct dpif_xdp_cls_stats *sum)
{
    engine_lock(dp);
    dpif_xdp_cls_stats_add(sum, &dp->engine.cls_stats);
    for (size_t i = 0; i < dp->engine.n_threads; i++) {
        dpif_xdp_cls_stats_add(sum, &dp->engine.threads[i]->cls_stats);
    }
    engine_unlock(dp);
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

    engine_lock(dp);
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
    engine_unlock(dp);
}
