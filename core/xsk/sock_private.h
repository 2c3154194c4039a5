/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an AF_XDP socket: core/xsk/sock_open.c makes it, core/xsk/sock.c moves packets. */
#ifndef OXDP_SOCK_PRIVATE_H
#define OXDP_SOCK_PRIVATE_H 1

#include <pthread.h>

#include "core/locks.h"
#include "core/xsk/sock.h"
#include "core/xsk/xsk_ring.h"

/* Entries of each ring: 16 bytes each for receive and transmit, 8 for fill and completion. */
#define OXDP_RING_SIZE 2048u

struct oxdp_sock {
    int fd;                     /* Receives. */
    int tx_fd;                  /* Sends; in zero-copy mode the same as 'fd'. */
    uint16_t id;                /* Owner of frames in the UMEM. */
    bool zerocopy;
    bool multi_buffer;                /* XDP_USE_SG. */
    struct oxdp_umem *umem;

    /* Receiving: one thread. */
    struct oxdp_ring rx, fill;
    uint32_t fill_held;         /* Frames lent to the kernel for receiving, in whichever ring. */
    uint32_t fill_target;       /* What 'fill_held' should be. */
    uint32_t fill_min;          /* 'fill' at opening. */
    uint32_t peak;              /* Most frames found waiting, and */
    uint32_t n_rounds;          /* non-empty calls, since the target was last looked at. */
    uint64_t rx_packets, rx_bytes;      /* Written by the receiver, read anywhere. */

    /* Sending. */
    pthread_mutex_t tx_lock __attribute__((aligned(64)));      /* oxdp_tx_lock. */
    struct oxdp_ring tx, completion;                            /* Written under 'tx_lock'; whether they are empty, read
                                                                 * anywhere. */
    bool down OXDP_GUARDED_BY(oxdp_tx_lock);                    /* The last kick found the device down or gone. */
    uint64_t tx_packets, tx_bytes, tx_dropped, tx_invalid;      /* Written under 'tx_lock', read anywhere. */

    /* Control. */
    int ifindex;
    uint32_t queue;
    bool shareable OXDP_GUARDED_BY(oxdp_bind_lock);     /* Bound, as far as we know. */
};

static inline void oxdp_lock_tx(struct oxdp_sock *sock)
    OXDP_ACQUIRES(oxdp_tx_lock)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_lock(&sock->tx_lock);
}

static inline void oxdp_unlock_tx(struct oxdp_sock *sock)
    OXDP_RELEASES(oxdp_tx_lock)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_unlock(&sock->tx_lock);
}

/* Counters have one writer at a time and any number of readers. */
static inline void oxdp_counter_add(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* Brings the frames lent for receiving up to the target, as far as the UMEM has them. */
void oxdp_sock_refill(struct oxdp_sock *sock);

#endif /* core/xsk/sock_private.h */
