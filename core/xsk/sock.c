/* SPDX-License-Identifier: Apache-2.0 */
/* Moving packets through an AF_XDP socket: the engine's hot path.
 *
 * Receiving takes everything the caller has room for at once and refills in one go.  How many frames a
 * socket lends to the kernel follows the load, so that a thousand quiet ports share a UMEM with a few busy
 * ones.  What is lent comes back only with packets in it; so a quarter of the UMEM is not lent, except the
 * few frames without which a socket would be deaf.
 */
#include "core/xsk/sock_private.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <string.h>
#include <sys/socket.h>

#include "core/xsk/umem_private.h"

#define BATCH 64u                   /* Addresses moved between stack and ring at once. */
#define KERNEL_BATCH 32             /* Packets that a system call sends if nothing is in the way. */
#define PATIENCE 4                  /* System calls without success before giving up for now. */
#define MAX_QUEUED 256u             /* Packets that oxdp_sock_tx_queue() lets wait. */
#define ROUNDS_PER_LOOK 1024u       /* Non-empty receives between decisions to lend less. */
#define GROWTH 4u                   /* A burst is over before growing slowly would help. */
#define FEW 16u                     /* Frames that a socket gets when no more shall be lent. */

static uint32_t reserve(const struct oxdp_umem *umem);
static uint32_t lendable(const struct oxdp_umem *umem);
static void adapt_fill(struct oxdp_sock *sock, uint32_t waiting);
static uint32_t transmit(struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n, uint32_t may_wait);
static void kick(struct oxdp_sock *sock) OXDP_REQUIRES(oxdp_tx_lock);
static void complete(struct oxdp_sock *sock) OXDP_REQUIRES(oxdp_tx_lock);
static uint32_t whole_packets(struct oxdp_sock *sock, uint32_t waiting, uint32_t n);
static uint32_t count_buffers(const struct oxdp_desc descs[], uint32_t n);
static uint32_t enqueue(struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n) OXDP_REQUIRES(oxdp_tx_lock);
static void drop(struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n) OXDP_REQUIRES(oxdp_tx_lock);

static inline uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

uint32_t oxdp_sock_rx(struct oxdp_sock *sock, struct oxdp_desc descs[], uint32_t max_n)
{
    uint32_t waiting = oxdp_ring_waiting(&sock->rx);
    uint32_t n = sock->multi_buffer ? whole_packets(sock, waiting, max_n) : min(waiting, max_n);
    uint64_t bytes = 0, packets = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct xdp_desc *desc = oxdp_ring_desc(&sock->rx, sock->rx.own + i);

        descs[i] = (struct oxdp_desc) { .addr = desc->addr, .len = desc->len, .more = desc->options & XDP_PKT_CONTD };
        oxdp_umem_set_owner(sock->umem, desc->addr, OXDP_OWNER_CALLER);
        packets += !descs[i].more;
        bytes += desc->len;
    }
    if (n) {
        oxdp_ring_consume(&sock->rx, n);
        sock->fill_held -= n;
        oxdp_counter_add(&sock->rx_packets, packets);
        oxdp_counter_add(&sock->rx_bytes, bytes);
        adapt_fill(sock, waiting);
    }
    if (sock->fill_held + sock->fill_target / 8 < sock->fill_target) {
        oxdp_sock_refill(sock);
    }
    if (sock->zerocopy && oxdp_ring_needs_wakeup(&sock->fill)) {
        recvfrom(sock->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
    }
    return n;
}

/* How many of 'waiting' descriptions are whole packets, 'max_n' at most.  The kernel shows packets whole.  One that is
 * longer than that, which no MTU allows, is dropped. */
static uint32_t whole_packets(struct oxdp_sock *sock, uint32_t waiting, uint32_t max_n)
{
    uint32_t n = min(waiting, max_n);

    while (n && oxdp_ring_desc(&sock->rx, sock->rx.own + n - 1)->options & XDP_PKT_CONTD) {
        n--;
    }
    for (bool more = !n && waiting; more; ) {
        const struct xdp_desc *desc = oxdp_ring_desc(&sock->rx, sock->rx.own);

        uint64_t addr = desc->addr;

        more = desc->options & XDP_PKT_CONTD && --waiting;
        oxdp_umem_put(sock->umem, &addr, 1);
        oxdp_ring_consume(&sock->rx, 1);
        sock->fill_held--;
    }
    return n;
}

bool oxdp_sock_starved(const struct oxdp_sock *sock)
{
    return sock->fill_target && !sock->fill_held;
}

/* The k-th socket that receives gets 1/8k of what may be lent: so there is enough for more than a thousand. */
uint32_t oxdp_sock_fair_fill(struct oxdp_umem *umem)
{
    oxdp_lock_binding(umem);

    uint32_t share = (umem->n_frames - reserve(umem)) / (8 * (umem->n_receivers + 1));

    oxdp_unlock_binding(umem);
    share = min(share, lendable(umem) / 2);
    return share ? min(share, OXDP_RING_SIZE) : 1;
}

static uint32_t reserve(const struct oxdp_umem *umem)
{
    return umem->n_frames / 4;
}

static uint32_t lendable(const struct oxdp_umem *umem)
{
    uint32_t n_free = oxdp_umem_n_free(umem);

    return n_free > reserve(umem) ? n_free - reserve(umem) : 0;
}

/* Lends more at once when half of what was lent came back at once, before a burst finds the fill ring
 * empty; but a quiet socket cannot return what it was lent, so that growing must leave something to others. */
static void adapt_fill(struct oxdp_sock *sock, uint32_t waiting)
{
    if (waiting >= sock->fill_target / 2 && sock->fill_target < OXDP_RING_SIZE) {
        uint32_t target = min(GROWTH * sock->fill_target, OXDP_RING_SIZE);

        if (lendable(sock->umem) >= reserve(sock->umem) / 2 + target - sock->fill_target) {
            sock->fill_target = target;
        }
    }
    if (waiting > sock->peak) {
        sock->peak = waiting;
    }
    if (++sock->n_rounds == ROUNDS_PER_LOOK) {
        if (sock->peak < sock->fill_target / 8) {
            sock->fill_target /= 2;
            if (sock->fill_target < sock->fill_min) {
                sock->fill_target = sock->fill_min;
            }
        }
        sock->peak = 0;
        sock->n_rounds = 0;
    }
}

/* Frames that 'sock' may take now: out of the reserve only a few, and one when that runs short, too. */
static uint32_t may_lend(const struct oxdp_sock *sock)
{
    const struct oxdp_umem *umem = sock->umem;
    uint32_t few = oxdp_umem_n_free(umem) > reserve(umem) / 4 ? FEW : 1;

    return max(lendable(umem), few > sock->fill_held ? few - sock->fill_held : 0);
}

void oxdp_sock_refill(struct oxdp_sock *sock)
{
    while (sock->fill_held < sock->fill_target) {
        uint64_t addrs[BATCH];
        uint32_t want = min(sock->fill_target - sock->fill_held, may_lend(sock));
        uint32_t n;

        want = min(min(want, BATCH), oxdp_ring_room(&sock->fill));
        n = want ? oxdp_umem_take(sock->umem, sock->id, addrs, want) : 0;
        if (!n) {
            return;
        }
        for (uint32_t i = 0; i < n; i++) {
            *oxdp_ring_addr(&sock->fill, sock->fill.own + i) = addrs[i];
        }
        oxdp_ring_produce(&sock->fill, n);
        sock->fill_held += n;
    }
}

uint32_t oxdp_sock_tx(struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n)
{
    return transmit(sock, descs, n, 0);
}

uint32_t oxdp_sock_tx_queue(struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n)
{
    return transmit(sock, descs, n, MAX_QUEUED);
}

/* Sends, but lets up to 'may_wait' packets wait in the transmit ring. */
static uint32_t transmit(struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n, uint32_t may_wait)
{
    uint32_t done = 0;

    oxdp_lock_tx(sock);

    uint64_t queued_before = sock->tx_packets;

    complete(sock);
    if (sock->down) {
        kick(sock);
    }
    for (bool over = false; !sock->down && !over; ) {
        uint32_t n_now = enqueue(sock, descs + done, n - done);

        if (oxdp_ring_pending(&sock->tx) > may_wait) {
            kick(sock);
        }
        done += n_now;
        over = done == n
            || (!n_now && oxdp_ring_room(&sock->tx) < count_buffers(descs + done, n - done));
    }
    if (done < n) {
        drop(sock, descs + done, n - done);
    }

    uint32_t queued = sock->tx_packets - queued_before;

    oxdp_unlock_tx(sock);
    return queued;
}

void oxdp_sock_complete(struct oxdp_sock *sock)
{
    if (oxdp_ring_in_use(&sock->completion) || oxdp_ring_in_use(&sock->tx)) {
        oxdp_lock_tx(sock);
        complete(sock);
        if (oxdp_ring_pending(&sock->tx)) {
            kick(sock);
        }
        oxdp_unlock_tx(sock);
    }
}

/* The kernel skips a piece that is empty or leaves its frame, and never says that it did: the frame would
 * be lost. */
static bool is_sendable(const struct oxdp_desc *desc)
{
    return desc->len && desc->addr % OXDP_FRAME_SIZE + desc->len <= OXDP_FRAME_SIZE;
}

/* Pieces of the packet that 'descs' begin with. */
static uint32_t count_buffers(const struct oxdp_desc descs[], uint32_t n)
{
    uint32_t buffers = 1;

    while (descs[buffers - 1].more && buffers < n) {
        buffers++;
    }
    return buffers;
}

static bool are_sendable(const struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n)
{
    bool sendable = n == 1 || (sock->multi_buffer && n <= OXDP_MAX_BUFFERS);

    for (uint32_t i = 0; i < n; i++) {
        sendable &= is_sendable(&descs[i]);
    }
    return sendable;
}

/* Puts packets into the transmit ring as far as they fit whole; returns how many of 'descs' are dealt with. */
static uint32_t enqueue(struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n)
    OXDP_REQUIRES(oxdp_tx_lock)
{
    uint32_t room = oxdp_ring_room(&sock->tx);
    uint32_t queued = 0, packets = 0;
    uint64_t bytes = 0;
    uint32_t i = 0;

    while (i < n) {
        uint32_t end = i + count_buffers(&descs[i], n - i);

        if (__builtin_expect(!are_sendable(sock, &descs[i], end - i), false)) {
            oxdp_counter_add(&sock->tx_invalid, 1);
            for (; i < end; i++) {
                oxdp_umem_put(sock->umem, &descs[i].addr, 1);
            }
            continue;
        }
        if (end - i > room - queued) {
            break;
        }
        for (; i < end; i++) {
            *oxdp_ring_desc(&sock->tx, sock->tx.own + queued++) = (struct xdp_desc) {
                .addr = descs[i].addr,
                .len = descs[i].len,
                .options = descs[i].more ? XDP_PKT_CONTD : 0,
            };
            oxdp_umem_set_owner(sock->umem, descs[i].addr, sock->id);
            bytes += descs[i].len;
        }
        packets++;
    }
    oxdp_ring_produce(&sock->tx, queued);
    oxdp_counter_add(&sock->tx_packets, packets);
    oxdp_counter_add(&sock->tx_bytes, bytes);
    return i;
}

/* Makes the kernel send what is in the transmit ring.  In zero-copy mode the driver works by itself once
 * it is awake.  In copy mode (net/xdp/xsk.c, __xsk_generic_xmit) a call that sends its share, 32 packets
 * before Linux 6.17, fails with EAGAIN; so does one that finds the send buffer or the completion ring
 * full; EBUSY means that the device dropped a packet.  Linux 6.1 publishes how far it came only when it
 * has taken everything it knew of, so that progress cannot be seen: the number of calls is bounded by what
 * there is to send, and a little patience. */
static void kick(struct oxdp_sock *sock)
    OXDP_REQUIRES(oxdp_tx_lock)
{
    int64_t packets_left = oxdp_ring_pending(&sock->tx) + PATIENCE * KERNEL_BATCH;

    sock->down = false;
    do {
        if (!oxdp_ring_needs_wakeup(&sock->tx)) {
            return;
        }
        if (!sendto(sock->tx_fd, NULL, 0, MSG_DONTWAIT, NULL, 0) || errno == EAGAIN) {
            packets_left -= KERNEL_BATCH;
            complete(sock);
        } else if (errno == EBUSY || errno == ENOBUFS || errno == EINTR) {
            packets_left--;
        } else {
            sock->down = true;
            return;
        }
    } while (!sock->zerocopy && oxdp_ring_pending(&sock->tx) && packets_left > 0);
}

static void complete(struct oxdp_sock *sock)
    OXDP_REQUIRES(oxdp_tx_lock)
{
    uint32_t waiting;

    while ((waiting = oxdp_ring_waiting(&sock->completion))) {
        uint64_t addrs[BATCH];
        uint32_t n = min(waiting, BATCH);

        for (uint32_t i = 0; i < n; i++) {
            addrs[i] = *oxdp_ring_addr(&sock->completion, sock->completion.own + i);
        }
        oxdp_ring_consume(&sock->completion, n);
        oxdp_umem_put(sock->umem, addrs, n);
    }
}

static void drop(struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n)
    OXDP_REQUIRES(oxdp_tx_lock)
{
    for (uint32_t i = 0; i < n; i++) {
        oxdp_counter_add(&sock->tx_dropped, !descs[i].more);
    }
    for (uint32_t done = 0; done < n; ) {
        uint64_t addrs[BATCH];
        uint32_t n_now = min(n - done, BATCH);

        for (uint32_t i = 0; i < n_now; i++) {
            addrs[i] = descs[done + i].addr;
        }
        oxdp_umem_put(sock->umem, addrs, n_now);
        done += n_now;
    }
}

bool oxdp_sock_multi_buffer(const struct oxdp_sock *sock)
{
    return sock->multi_buffer;
}

/* net/xdp/xsk.c, xsk_notifier: ENETDOWN. */
bool oxdp_sock_alive(const struct oxdp_sock *sock)
{
    int error = 0;
    socklen_t len = sizeof error;

    return getsockopt(sock->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error != ENETDOWN;
}

int oxdp_sock_fd(const struct oxdp_sock *sock)
{
    return sock->fd;
}

static struct xdp_statistics get_kernel_stats(int fd)
{
    struct xdp_statistics stats;
    socklen_t len = sizeof stats;

    memset(&stats, 0, sizeof stats);
    getsockopt(fd, SOL_XDP, XDP_STATISTICS, &stats, &len);
    return stats;
}

void oxdp_sock_get_stats(const struct oxdp_sock *sock, struct oxdp_sock_stats *ret_stats)
{
    struct xdp_statistics kernel = get_kernel_stats(sock->fd);
    uint64_t tx_invalid = get_kernel_stats(sock->tx_fd).tx_invalid_descs;

    *ret_stats = (struct oxdp_sock_stats) {
        .rx_packets = __atomic_load_n(&sock->rx_packets, __ATOMIC_RELAXED),
        .rx_bytes = __atomic_load_n(&sock->rx_bytes, __ATOMIC_RELAXED),
        .tx_packets = __atomic_load_n(&sock->tx_packets, __ATOMIC_RELAXED),
        .tx_bytes = __atomic_load_n(&sock->tx_bytes, __ATOMIC_RELAXED),
        .tx_dropped = __atomic_load_n(&sock->tx_dropped, __ATOMIC_RELAXED),
        .tx_invalid = tx_invalid + __atomic_load_n(&sock->tx_invalid, __ATOMIC_RELAXED),
        .rx_ring_full = kernel.rx_ring_full,
        .rx_fill_empty = kernel.rx_fill_ring_empty_descs,
        .rx_dropped = kernel.rx_dropped,
    };
}
