/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a UMEM, for the files in core/ that move frames or bind sockets. */
#ifndef OXDP_UMEM_PRIVATE_H
#define OXDP_UMEM_PRIVATE_H 1

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core/locks.h"
#include "core/xsk/umem.h"

/* The owner of a frame: a socket's number, or one of these. */
#define OXDP_OWNER_STACK  0xffffu
#define OXDP_OWNER_CALLER 0xfffeu
#define OXDP_MAX_SOCKS    0xfffeu

/* A queue whose socket was closed.  The kernel frees it in the background, and not before it has dealt with the last
 * packet that the socket sent: a qdisc behind a veth may keep that for long. */
struct oxdp_closed {
    int ifindex;                /* 0: none. */
    uint32_t queue;
    int64_t ms;                 /* When the socket was closed: CLOCK_MONOTONIC. */
    bool waited;                /* oxdp_sock_open() has waited for the queue in vain. */
};

/* So many are remembered.  The oldest is forgotten first. */
#define OXDP_N_CLOSED 256u

struct oxdp_umem {
    uint8_t *base;
    uint32_t n_frames;

    /* The owner of each frame.  Only the present owner writes, so relaxed atomics are enough; the scan that
     * recovers a closed socket's frames looks for that socket's number only. */
    uint16_t *owner;

    pthread_mutex_t lock;       /* oxdp_umem_lock. */
    uint32_t *stack OXDP_GUARDED_BY(oxdp_umem_lock);    /* Numbers of free frames. */
    uint32_t n_free;            /* Written under 'lock', read anywhere. */

    /* Control, not on the packet's way. */
    pthread_mutex_t bind_lock;  /* oxdp_bind_lock. */
    struct oxdp_sock **socks OXDP_GUARDED_BY(oxdp_bind_lock);   /* By socket number; NULL: the number is free. */
    uint32_t n_socks_allocated OXDP_GUARDED_BY(oxdp_bind_lock);
    uint32_t n_receivers OXDP_GUARDED_BY(oxdp_bind_lock);       /* Sockets to which frames are lent. */
    int64_t made_ms;            /* CLOCK_MONOTONIC. */
    struct oxdp_closed closed[OXDP_N_CLOSED] OXDP_GUARDED_BY(oxdp_bind_lock);
    uint32_t n_closed OXDP_GUARDED_BY(oxdp_bind_lock);          /* How often a place there was taken. */
    /* A socket that registered the memory and is not bound yet, or -1. */
    int spare_fd OXDP_GUARDED_BY(oxdp_bind_lock);
};

static inline void oxdp_lock_stack(struct oxdp_umem *umem)
    OXDP_ACQUIRES(oxdp_umem_lock)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_lock(&umem->lock);
}

static inline void oxdp_unlock_stack(struct oxdp_umem *umem)
    OXDP_RELEASES(oxdp_umem_lock)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_unlock(&umem->lock);
}

static inline void oxdp_lock_binding(struct oxdp_umem *umem)
    OXDP_ACQUIRES(oxdp_bind_lock)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_lock(&umem->bind_lock);
}

static inline void oxdp_unlock_binding(struct oxdp_umem *umem)
    OXDP_RELEASES(oxdp_bind_lock)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_unlock(&umem->bind_lock);
}

static inline int64_t oxdp_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static inline void oxdp_umem_set_owner(struct oxdp_umem *umem, uint64_t addr, uint16_t owner)
{
    __atomic_store_n(&umem->owner[addr / OXDP_FRAME_SIZE], owner, __ATOMIC_RELAXED);
}

/* Opens an AF_XDP socket and registers the memory with it: a new UMEM for the kernel, over the same pages.
 * Returns the file descriptor, or a negative errno. */
int oxdp_umem_register(const struct oxdp_umem *umem);

/* As oxdp_umem_get(), for socket number 'owner' instead of the caller. */
uint32_t oxdp_umem_take(struct oxdp_umem *umem, uint16_t owner, uint64_t addrs[], uint32_t n);

/* Puts back every frame that socket number 'owner' still has; the kernel must have released them.
 * Returns how many. */
uint32_t oxdp_umem_recover(struct oxdp_umem *umem, uint16_t owner);

#endif /* core/xsk/umem_private.h */
