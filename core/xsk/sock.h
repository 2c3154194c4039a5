/* SPDX-License-Identifier: Apache-2.0 */
/* AF_XDP sockets: one per receive queue of a device, all on one shared UMEM.
 *
 * Receiving ('oxdp_sock_rx') belongs to one thread at a time; sending ('oxdp_sock_tx') may be
 * called from any thread and locks inside.  Closing must not race with receiving; a sender that
 * comes after close is the caller's to exclude.
 */
#ifndef OXDP_SOCK_H
#define OXDP_SOCK_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oxdp_sock;
struct oxdp_umem;

/* A packet in the UMEM, or a piece of one: 'addr' is a byte offset from the UMEM's base, 'len' in bytes.  A packet that
 * is longer than a frame lies in several, one description behind the other. */
struct oxdp_desc {
    uint64_t addr;
    uint32_t len;
    bool more;                      /* The packet goes on in the next description. */
};

/* Descriptions of one packet, at most, that the kernel sends (net/xdp/xsk.c, MAX_SKB_FRAGS). */
#define OXDP_MAX_BUFFERS 17u

struct oxdp_sock_stats {
    uint64_t rx_packets, rx_bytes;
    uint64_t tx_packets, tx_bytes;
    uint64_t tx_dropped;            /* The device's ring stayed full, or no frame was free. */
    uint64_t tx_invalid;            /* Packets refused: empty, beyond the end of their frame, in too many buffers. */
    uint64_t rx_ring_full;          /* Kernel: the engine was too slow. */
    uint64_t rx_fill_empty;         /* Kernel: no free frame waited: too few frames. */
    uint64_t rx_dropped;            /* Kernel: other reasons. */
};

/* Whether 'sock' receives and sends packets in several frames: core/multi_buffer.h; in zero-copy mode also the driver
 * must have it. */
bool oxdp_sock_multi_buffer(const struct oxdp_sock *sock);

/* Opens a socket on queue 'queue' of device 'ifindex' in the caller's network namespace, sharing
 * 'umem'.  'zerocopy' demands zero-copy (XDP_ZEROCOPY), else copy mode (XDP_COPY) is demanded.
 * 'fill' is the number of frames the socket keeps waiting for the kernel at first
 * (it grows under load up to the ring's size and shrinks again with it); 0: the socket only sends.
 * Returns 0 and stores the socket in '*ret_sock', or a negative errno: -EOPNOTSUPP (no zero-copy),
 * -ENODEV, -EBUSY (the queue has a foreign AF_XDP socket), -EAGAIN (the kernel has not freed the queue of a socket that
 * was closed; the first try waits for that, later ones do not), -ENOMEM. */
int oxdp_sock_open(struct oxdp_umem *umem, int ifindex, uint32_t queue, bool zerocopy, uint32_t fill,
                   struct oxdp_sock **ret_sock);

/* The 'fill' that is fair to one more socket on 'umem': what is lent to a quiet socket does not come back, so the
 * first sockets get much and later ones less, and there is always something left.  At least 1. */
uint32_t oxdp_sock_fair_fill(struct oxdp_umem *umem);

/* Closes 'sock' and returns its frames to the UMEM.  NULL is allowed. */
void oxdp_sock_close(struct oxdp_sock *sock);

/* The same, in the background.  Opening another socket of the same device and destroying the UMEM wait for it. */
void oxdp_sock_close_later(struct oxdp_sock *sock);

/* Whether the device has not been unregistered since 'sock' was opened: a device that was in another network namespace
 * for a moment comes back under its old number, but without its sockets. */
bool oxdp_sock_alive(const struct oxdp_sock *sock);

/* File descriptor: for epoll (readable: frames wait) and for the XSKMAP. */
int oxdp_sock_fd(const struct oxdp_sock *sock);

/* Receives whole packets into 'descs', up to 'max' frames, which is at least OXDP_MAX_BUFFERS, and refills the fill
 * ring; returns how many frames.  The caller owns them until it gives them to oxdp_umem_put() or oxdp_sock_tx().
 * Wakes the driver when it asks for that (need-wakeup). */
uint32_t oxdp_sock_rx(struct oxdp_sock *sock, struct oxdp_desc descs[], uint32_t max);

/* True if the kernel has no frame to receive into: the UMEM was empty when the socket wanted more.  Nothing arrives
 * and the descriptor stays silent until oxdp_sock_rx() is called when frames are free again. */
bool oxdp_sock_starved(const struct oxdp_sock *sock);

/* Sends 'n' frames that the caller owns, the last of which ends a packet, takes over all of them, and starts
 * transmission.  What cannot be queued after a bounded number of tries is dropped, counted in tx_dropped and returned
 * to the UMEM.  Returns the number of packets queued. */
uint32_t oxdp_sock_tx(struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n);

/* As oxdp_sock_tx(), for a caller that soon calls that for 'sock', too, with more packets or with none: transmission
 * may wait until then, so that one system call serves for more packets. */
uint32_t oxdp_sock_tx_queue(struct oxdp_sock *sock, const struct oxdp_desc descs[], uint32_t n);

/* Collects completions (returns frames sent to the stack); cheap when there are none.  Called by the
 * engine from time to time so that frames do not stay with a socket that sends no more. */
void oxdp_sock_complete(struct oxdp_sock *sock);

void oxdp_sock_get_stats(const struct oxdp_sock *sock, struct oxdp_sock_stats *ret_stats);

/* Packets that did not get from a socket to its device. */
static inline uint64_t oxdp_sock_send_drops(const struct oxdp_sock_stats *stats)
{
    return stats->tx_dropped + stats->tx_invalid;
}

#endif /* core/xsk/sock.h */
