/* SPDX-License-Identifier: Apache-2.0 */
/* The four rings of an AF_XDP socket, seen from userspace (Linux Documentation/networking/af_xdp.rst).
 *
 * One side writes 'producer', the other 'consumer'; both only ever grow (modulo 2^32).  Entries are struct
 * xdp_desc (receive, transmit) or 64-bit addresses (fill, completion).  A ring is used by one thread at a
 * time.
 */
#ifndef OXDP_XSK_RING_H
#define OXDP_XSK_RING_H 1

#include <linux/if_xdp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Linux 6.6; absent from older headers. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

struct oxdp_ring {
    uint32_t *producer;
    uint32_t *consumer;
    uint32_t *flags;
    void *entries;
    uint32_t own;           /* The index that we write, ahead of what the kernel sees until published. */
    uint32_t size;          /* Entries, a power of two. */
    void *map;
    size_t map_len;
};

static inline uint64_t *oxdp_ring_addr(const struct oxdp_ring *ring, uint32_t index)
{
    return (uint64_t *) ring->entries + (index & (ring->size - 1));
}

static inline struct xdp_desc *oxdp_ring_desc(const struct oxdp_ring *ring, uint32_t index)
{
    return (struct xdp_desc *) ring->entries + (index & (ring->size - 1));
}

/* Rings that we consume (receive, completion): entries that wait. */
static inline uint32_t oxdp_ring_waiting(const struct oxdp_ring *ring)
{
    return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - ring->own;
}

/* Gives 'n' entries back to the kernel. */
static inline void oxdp_ring_consume(struct oxdp_ring *ring, uint32_t n)
{
    ring->own += n;
    __atomic_store_n(ring->consumer, ring->own, __ATOMIC_RELEASE);
}

/* Rings that we produce (fill, transmit): entries that the kernel has not taken. */
static inline uint32_t oxdp_ring_pending(const struct oxdp_ring *ring)
{
    return ring->own - __atomic_load_n(ring->consumer, __ATOMIC_ACQUIRE);
}

static inline uint32_t oxdp_ring_room(const struct oxdp_ring *ring)
{
    return ring->size - oxdp_ring_pending(ring);
}

/* Hands the 'n' entries written from 'own' on to the kernel. */
static inline void oxdp_ring_produce(struct oxdp_ring *ring, uint32_t n)
{
    ring->own += n;
    __atomic_store_n(ring->producer, ring->own, __ATOMIC_RELEASE);
}

/* True if there seem to be entries, asked by a thread that does not hold the ring. */
static inline bool oxdp_ring_in_use(const struct oxdp_ring *ring)
{
    return __atomic_load_n(ring->producer, __ATOMIC_RELAXED)
        != __atomic_load_n(ring->consumer, __ATOMIC_RELAXED);
}

/* True if the kernel sleeps until a system call tells it that the ring has entries.  The full barrier
 * orders the entries before the reading of the flag: otherwise both sides could go to sleep. */
static inline bool oxdp_ring_needs_wakeup(const struct oxdp_ring *ring)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(ring->flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP;
}

#endif /* core/xsk/xsk_ring.h */
