/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing AF_XDP sockets on a shared UMEM.
 *
 * The sockets are set up through the kernel's own interface (linux/if_xdp.h) and not through libxdp, for
 * three reasons.  libxdp shares a UMEM only through the first socket's file descriptor: once that socket's
 * device is removed, every later socket fails (EBADF), and closing that socket leaves its queue taken
 * until the UMEM is destroyed.  The kernel lets all sockets of one UMEM be zero-copy or none
 * (net/xdp/xsk_buff_pool.c, xp_assign_dev_shared), so that a datapath with both needs two registrations of
 * the same memory, which libxdp cannot express.  And libxdp would load its dispatcher.
 *
 * So: a new socket shares the kernel's UMEM of any socket of the same kind that is still bound; if there
 * is none, it registers the memory anew.  The kernel counts references, the memory stays the same, and
 * addresses mean the same in every registration.
 */
#include "core/xsk/sock_private.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/multi_buffer.h"
#include "core/xsk/later.h"
#include "core/xsk/umem_private.h"

/* Linux 6.17; absent from older headers. */
#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9
#endif

/* How long to wait for a queue that has a socket: of another program, or one that was closed, by this process
 * (struct oxdp_closed) or by a previous instance shortly before this one began.  The kernel frees a queue in the
 * background (net/xdp/xsk_buff_pool.c, xp_put_pool), on a busy machine not soon. */
#define BUSY_WAIT_MS 500
#define BUSY_WAIT_OWN_MS 5000
#define OF_LATE_MS 15000
#define BUSY_POLL_MS 5

/* After this time the queue is that of another program. */
#define OURS_MS 60000

/* Bytes of packets that a socket may have under way in copy mode: a full transmit ring of small packets,
 * whose skbs are charged about 2 kB each. */
#define SEND_BUFFER (4 << 20)

static int open_when_free(struct oxdp_sock *sock) OXDP_REQUIRES(oxdp_bind_lock);
static struct oxdp_closed *find_closed(const struct oxdp_sock *sock) OXDP_REQUIRES(oxdp_bind_lock);
static void note_closed(const struct oxdp_sock *sock) OXDP_REQUIRES(oxdp_bind_lock);
static int open_once(struct oxdp_sock *sock) OXDP_REQUIRES(oxdp_bind_lock);
static int open_in_either_way(struct oxdp_sock *sock) OXDP_REQUIRES(oxdp_bind_lock);
static int alloc_id(struct oxdp_sock *sock) OXDP_REQUIRES(oxdp_bind_lock);
static void free_id(struct oxdp_sock *sock) OXDP_REQUIRES(oxdp_bind_lock);
static struct oxdp_sock *share_source(const struct oxdp_sock *sock) OXDP_REQUIRES(oxdp_bind_lock);
static int make_socket(struct oxdp_umem *umem, bool share) OXDP_REQUIRES(oxdp_bind_lock);
static int make_rings(struct oxdp_sock *sock);
static int make_tx_ring(struct oxdp_sock *sock, int fd);
static int make_sender(struct oxdp_sock *sock);
static int bind_socket(struct oxdp_sock *sock, const struct oxdp_sock *source);
static void release(struct oxdp_sock *sock);
static void sleep_ms(int ms);

int oxdp_sock_open(struct oxdp_umem *umem, int ifindex, uint32_t queue, bool zerocopy, uint32_t fill,
                   struct oxdp_sock **ret_sock)
{
    struct oxdp_sock *sock = aligned_alloc(_Alignof(struct oxdp_sock), sizeof *sock);
    int err;

    if (!sock) {
        return -ENOMEM;
    }
    memset(sock, 0, sizeof *sock);
    sock->fd = sock->tx_fd = -1;
    sock->umem = umem;
    sock->ifindex = ifindex;
    sock->queue = queue;
    sock->zerocopy = zerocopy;
    sock->multi_buffer = oxdp_has_multi_buffer();
    sock->fill_min = sock->fill_target = fill < OXDP_RING_SIZE ? fill : OXDP_RING_SIZE;
    pthread_mutex_init(&sock->tx_lock, NULL);

    oxdp_later_wait(umem, ifindex);
    oxdp_lock_binding(umem);
    err = alloc_id(sock);
    if (!err) {
        err = open_when_free(sock);
        if (err) {
            free_id(sock);
        }
    }
    oxdp_unlock_binding(umem);

    if (err) {
        pthread_mutex_destroy(&sock->tx_lock);
        free(sock);
        return err;
    }
    *ret_sock = sock;
    return 0;
}

void oxdp_sock_close(struct oxdp_sock *sock)
{
    if (!sock) {
        return;
    }

    struct oxdp_umem *umem = sock->umem;

    oxdp_lock_binding(umem);
    sock->shareable = false;
    oxdp_unlock_binding(umem);

    release(sock);

    oxdp_lock_binding(umem);
    free_id(sock);
    note_closed(sock);
    oxdp_unlock_binding(umem);
    pthread_mutex_destroy(&sock->tx_lock);
    free(sock);
}

static void close_sock(void *sock)
{
    oxdp_sock_close(sock);
}

void oxdp_sock_close_later(struct oxdp_sock *sock)
{
    if (sock) {
        oxdp_later(close_sock, sock, sock->umem, sock->ifindex);
    }
}

static int busy_wait_ms(const struct oxdp_umem *umem, const struct oxdp_closed *closed)
{
    if (closed) {
        return closed->waited ? 0 : BUSY_WAIT_OWN_MS;
    }
    return oxdp_now_ms() - umem->made_ms < OF_LATE_MS ? BUSY_WAIT_OWN_MS : BUSY_WAIT_MS;
}

static int open_when_free(struct oxdp_sock *sock)
    OXDP_REQUIRES(oxdp_bind_lock)
{
    struct oxdp_umem *umem = sock->umem;
    struct oxdp_closed *closed = find_closed(sock);
    int64_t deadline = oxdp_now_ms() + busy_wait_ms(umem, closed);
    int err;

    while ((err = open_in_either_way(sock)) == -EBUSY && oxdp_now_ms() < deadline) {
        oxdp_unlock_binding(umem);
        sleep_ms(BUSY_POLL_MS);
        oxdp_lock_binding(umem);
    }
    closed = find_closed(sock);
    if (closed && !err) {
        closed->ifindex = 0;
    } else if (closed && err == -EBUSY && oxdp_now_ms() - closed->ms < OURS_MS) {
        closed->waited = true;
        err = -EAGAIN;
    }
    return err;
}

static struct oxdp_closed *find_closed(const struct oxdp_sock *sock)
    OXDP_REQUIRES(oxdp_bind_lock)
{
    struct oxdp_closed *closed = sock->umem->closed;

    for (uint32_t i = 0; i < OXDP_N_CLOSED; i++) {
        if (closed[i].ifindex == sock->ifindex && closed[i].queue == sock->queue) {
            return &closed[i];
        }
    }
    return NULL;
}

static void note_closed(const struct oxdp_sock *sock)
    OXDP_REQUIRES(oxdp_bind_lock)
{
    struct oxdp_closed *closed = find_closed(sock);

    if (!closed) {
        closed = &sock->umem->closed[sock->umem->n_closed++ % OXDP_N_CLOSED];
    }
    *closed = (struct oxdp_closed) { .ifindex = sock->ifindex, .queue = sock->queue, .ms = oxdp_now_ms() };
}

/* A driver may have zero-copy, but not with packets in several frames. */
static int open_in_either_way(struct oxdp_sock *sock)
    OXDP_REQUIRES(oxdp_bind_lock)
{
    int err = open_once(sock);

    if (err == -EOPNOTSUPP && sock->zerocopy && sock->multi_buffer) {
        sock->multi_buffer = false;
        err = open_once(sock);
    }
    return err;
}

static int open_once(struct oxdp_sock *sock)
    OXDP_REQUIRES(oxdp_bind_lock)
{
    for (;;) {
        struct oxdp_sock *source = share_source(sock);
        int err = make_socket(sock->umem, source);

        if (err < 0) {
            return err;
        }
        sock->fd = err;
        err = make_rings(sock);
        if (!err) {
            err = bind_socket(sock, source);
        }
        if (!err) {
            err = make_sender(sock);
        }
        if (!err) {
            sock->shareable = true;
            oxdp_sock_refill(sock);
            return 0;
        }
        release(sock);
        if (!source || err != -EBADF) {
            return err;
        }
        source->shareable = false;
    }
}

static int alloc_id(struct oxdp_sock *sock)
    OXDP_REQUIRES(oxdp_bind_lock)
{
    struct oxdp_umem *umem = sock->umem;
    uint32_t id = 0;

    while (id < umem->n_socks_allocated && umem->socks[id]) {
        id++;
    }
    if (id == OXDP_MAX_SOCKS) {
        return -ENOSPC;
    }
    if (id == umem->n_socks_allocated) {
        uint32_t n = id ? 2 * id : 16;
        struct oxdp_sock **socks = reallocarray(umem->socks, n, sizeof *socks);

        if (!socks) {
            return -ENOMEM;
        }
        memset(socks + id, 0, (n - id) * sizeof *socks);
        umem->socks = socks;
        umem->n_socks_allocated = n;
    }
    umem->socks[id] = sock;
    umem->n_receivers += sock->fill_min > 0;
    sock->id = id;
    return 0;
}

static void free_id(struct oxdp_sock *sock)
    OXDP_REQUIRES(oxdp_bind_lock)
{
    sock->umem->socks[sock->id] = NULL;
    sock->umem->n_receivers -= sock->fill_min > 0;
}

static struct oxdp_sock *share_source(const struct oxdp_sock *sock)
    OXDP_REQUIRES(oxdp_bind_lock)
{
    for (uint32_t id = 0; id < sock->umem->n_socks_allocated; id++) {
        struct oxdp_sock *other = sock->umem->socks[id];

        if (other && other->shareable && other->zerocopy == sock->zerocopy
            && other->multi_buffer == sock->multi_buffer) {
            return other;
        }
    }
    return NULL;
}

/* A socket that will share another's UMEM, or one that has registered its own. */
static int make_socket(struct oxdp_umem *umem, bool share)
    OXDP_REQUIRES(oxdp_bind_lock)
{
    int fd;

    if (share) {
        fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
        return fd < 0 ? -errno : fd;
    }
    fd = umem->spare_fd;
    umem->spare_fd = -1;
    return fd >= 0 ? fd : oxdp_umem_register(umem);
}

static int set_ring_size(int fd, int option)
{
    uint32_t size = OXDP_RING_SIZE;

    return setsockopt(fd, SOL_XDP, option, &size, sizeof size) ? -errno : 0;
}

static int map_ring(int fd, const struct xdp_ring_offset *at, size_t entry_size, uint64_t page_offset,
                    struct oxdp_ring *ring)
{
    size_t len = at->desc + OXDP_RING_SIZE * entry_size;
    uint8_t *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page_offset);

    if (map == MAP_FAILED) {
        return -errno;
    }
    /* The mapping holds a reference to the socket: a child that keeps it would keep the queue taken. */
    madvise(map, len, MADV_DONTFORK);
    *ring = (struct oxdp_ring) {
        .producer = (uint32_t *) (map + at->producer),
        .consumer = (uint32_t *) (map + at->consumer),
        .flags = (uint32_t *) (map + at->flags),
        .entries = map + at->desc,
        .size = OXDP_RING_SIZE,
        .map = map,
        .map_len = len,
    };
    return 0;
}

static int make_rings(struct oxdp_sock *sock)
{
    struct xdp_mmap_offsets at;
    socklen_t len = sizeof at;
    int fd = sock->fd;
    int err;

    if ((err = set_ring_size(fd, XDP_UMEM_FILL_RING))
        || (err = set_ring_size(fd, XDP_UMEM_COMPLETION_RING))
        || (err = set_ring_size(fd, XDP_RX_RING))) {
        return err;
    }
    if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len)) {
        return -errno;
    }
    if ((err = map_ring(fd, &at.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING, &sock->rx))
        || (err = map_ring(fd, &at.fr, sizeof(uint64_t), XDP_UMEM_PGOFF_FILL_RING, &sock->fill))
        || (err = map_ring(fd, &at.cr, sizeof(uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING,
                           &sock->completion))) {
        return err;
    }
    return sock->zerocopy ? make_tx_ring(sock, fd) : 0;
}

static int make_tx_ring(struct oxdp_sock *sock, int fd)
{
    struct xdp_mmap_offsets at;
    socklen_t len = sizeof at;
    int err = set_ring_size(fd, XDP_TX_RING);

    if (err) {
        return err;
    }
    if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len)) {
        return -errno;
    }

    /* Both only save system calls; without them the kernel's defaults do. */
    uint32_t budget = OXDP_RING_SIZE;
    int buffer = SEND_BUFFER;

    setsockopt(fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget, sizeof budget);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
    sock->tx_fd = fd;
    return map_ring(fd, &at.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING, &sock->tx);
}

/* In copy mode, freeing a sent packet wakes all threads that wait for room in its socket
 * (net/core/xsk/sock.c, sock_wfree).  If a thread waits for frames to be received there, that wake-up costs a tenth of
 * forwarding a packet.  So sending has a socket of its own, which no thread polls. */
static int make_sender(struct oxdp_sock *sock)
{
    struct sockaddr_xdp address = {
        .sxdp_family = AF_XDP,
        .sxdp_flags = XDP_SHARED_UMEM,
        .sxdp_ifindex = sock->ifindex,
        .sxdp_queue_id = sock->queue,
        .sxdp_shared_umem_fd = sock->fd,
    };
    int fd, err;

    if (sock->zerocopy) {
        return 0;
    }
    fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    err = make_tx_ring(sock, fd);
    sock->tx_fd = fd;
    if (!err && bind(fd, (struct sockaddr *) &address, sizeof address)) {
        err = -errno;
    }
    return err;
}

/* A sharing socket inherits copy or zero-copy, need-wakeup and multi-buffer from its source, and must not name them. */
static int bind_socket(struct oxdp_sock *sock, const struct oxdp_sock *source)
{
    struct sockaddr_xdp address = {
        .sxdp_family = AF_XDP,
        .sxdp_ifindex = sock->ifindex,
        .sxdp_queue_id = sock->queue,
    };

    if (source) {
        address.sxdp_flags = XDP_SHARED_UMEM;
        address.sxdp_shared_umem_fd = source->fd;
    } else {
        address.sxdp_flags = (sock->zerocopy ? XDP_ZEROCOPY : XDP_COPY) | XDP_USE_NEED_WAKEUP
            | (sock->multi_buffer ? XDP_USE_SG : 0);
    }
    if (!bind(sock->fd, (struct sockaddr *) &address, sizeof address)) {
        return 0;
    }

    /* Sockets of one queue share its rings; ours have their own, which the kernel calls invalid. */
    bool same_queue = source && source->ifindex == sock->ifindex && source->queue == sock->queue;

    return errno == EINVAL && same_queue ? -EBUSY : -errno;
}

/* The kernel lets go of the socket when both its file descriptor and its mappings are gone; until then it
 * may write to frames of the fill ring.  After that all frames that the socket owned are free. */
static void release(struct oxdp_sock *sock)
{
    struct oxdp_ring *rings[] = { &sock->rx, &sock->tx, &sock->fill, &sock->completion };

    for (size_t i = 0; i < sizeof rings / sizeof rings[0]; i++) {
        if (rings[i]->map) {
            munmap(rings[i]->map, rings[i]->map_len);
        }
        memset(rings[i], 0, sizeof *rings[i]);
    }
    if (sock->tx_fd >= 0 && sock->tx_fd != sock->fd) {
        close(sock->tx_fd);
    }
    close(sock->fd);
    sock->fd = sock->tx_fd = -1;
    oxdp_umem_recover(sock->umem, sock->id);
    sock->fill_held = 0;
}

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec) { .tv_nsec = ms * 1000000L }, NULL);
}
