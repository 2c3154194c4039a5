/* SPDX-License-Identifier: Apache-2.0 */
/* An engine thread: ovs/engine/thread.c is what it does, ovs/engine/threads.c
 * starts and stops threads and gives them queues. */
#ifndef DPIF_XDP_THREAD_H
#define DPIF_XDP_THREAD_H 1

#include <pthread.h>

#include "ovs/engine/engine_private.h"

#define DPIF_XDP_MIN_SPIN_US 5          /* Shortest polling after a packet. */

struct dpif_xdp_thread {
    struct dpif_xdp_dp *dp;
    int core_id;                        /* CPU, or -1: the kernel decides. */
    pthread_t pthread;
    int epoll_fd;
    int wake_fd;                        /* eventfd in 'epoll_fd'. */
    size_t n_rxqs OVS_GUARDED_BY(dpif_xdp_port_mutex);
    size_t load OVS_GUARDED_BY(dpif_xdp_port_mutex);

    /* Held by the thread except while it sleeps or pauses. */
    struct ovs_mutex mutex;             /* dpif_xdp_thread_mutex. */
    pthread_cond_t resumed;
    atomic_bool pause;                  /* A thread waits for 'mutex'. */
    unsigned int generation             /* Counts pauses. */
        OVS_GUARDED_BY(dpif_xdp_thread_mutex);
    bool exit OVS_GUARDED_BY(dpif_xdp_thread_mutex);
    struct dpif_xdp_rxq **active        /* Queues that are polled. */
        OVS_GUARDED_BY(dpif_xdp_thread_mutex);
    size_t n_active OVS_GUARDED_BY(dpif_xdp_thread_mutex);
    size_t allocated_active OVS_GUARDED_BY(dpif_xdp_thread_mutex);

    /* Used by the thread; statistics read by others. */
    struct dpif_xdp_cache *cache;
    struct dpif_xdp_cls_stats cls_stats;
    bool expect_simple;                 /* See struct dpif_xdp_ctx. */
    long long int spin_us;
    bool counted;                       /* It may have coverage counts that
                                         * were not published. */
    atomic_uint64_t n_sleeps;
};

/* The main function of 'thread'. */
void *dpif_xdp_thread_main(void *thread);

/* Makes 'thread' poll 'rxq'. */
void dpif_xdp_thread_activate(struct dpif_xdp_thread *thread,
                              struct dpif_xdp_rxq *rxq)
    OVS_REQUIRES(dpif_xdp_thread_mutex);

/* Whether the kernel has no frame to receive into: then it reports nothing,
 * and polling refills it as soon as frames are free. */
bool dpif_xdp_rxq_is_starved(const struct dpif_xdp_rxq *);

#endif /* ovs/engine/thread.h */
