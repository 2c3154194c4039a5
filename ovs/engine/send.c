/* SPDX-License-Identifier: Apache-2.0 */
/* Sending to ports at tcx, which have no AF_XDP sockets to receive from.
 *
 * An AF_XDP socket is the fastest way to send, but costs the kernel 128 bytes
 * for each packet buffer of the datapath, and milliseconds to open: too much
 * for a thousand containers to which the engine sends a packet now and then.
 * So a packet socket that all ports share does it (core/xsk/stack.h), and a
 * port has an AF_XDP socket while the engine sends much to it, or what is
 * longer than a packet socket sends: a few bytes more than the MTU, such as a
 * label, pass through many devices.  Both ways a packet is with the device
 * when the system call returns: packets do not change places when the way
 * changes.
 *
 * Measured, to receive, look up, truncate and send a packet of 64 bytes: 0.80
 * us of CPU time with AF_XDP, 1.29 with the packet socket. */
#include <config.h>

#include "ovs/engine/engine_private.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "core/multi_buffer.h"
#include "core/xsk/stack.h"
#include "netdev-provider.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs/base/compat.h"
#include "timeval.h"
#include "util.h"
#include "core/xsk/sock.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_send);

/* A port to which the engine sends BUSY_PACKETS within a second gets an AF_XDP
 * socket, and loses it when it gets fewer in ten seconds. */
#define BUSY_PACKETS 1000
#define BUSY_MS 1000
#define LOOK_MS 10000

#define REFUSED_MS 60000                /* Between tries to open one. */

static void send_by_stack(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                          struct dp_packet_batch *);
static size_t send_burst_by_stack(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                                  struct dp_packet_batch *, size_t n);
static void send_short_ones(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                            struct dp_packet_batch *);
static void add_to_waiting(struct dpif_xdp_dp *, struct dpif_xdp_port *,
                           struct dp_packet_batch *);
static void have_main_thread_look(struct dpif_xdp_dp *,
                                  struct dpif_xdp_port *);
static void look_at_load(struct dpif_xdp_ctx *, struct dpif_xdp_port *,
                         size_t n)
    OVS_REQ_RDLOCK(dpif_xdp_tx_rwlock);
static bool may_open_sock(const struct dpif_xdp_ctx *,
                          const struct dpif_xdp_port *)
    OVS_REQ_RDLOCK(dpif_xdp_tx_rwlock);
static void close_sock(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

static void
waiting_lock(struct dpif_xdp_sender *sender)
    OVS_ACQUIRES(dpif_xdp_waiting_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&sender->mutex);
}

static void
waiting_unlock(struct dpif_xdp_sender *sender)
    OVS_RELEASES(dpif_xdp_waiting_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&sender->mutex);
}

void
dpif_xdp_senders_init(struct dpif_xdp_dp *dp)
{
    dp->senders.stack_fd = -1;
    dp->senders.tunnel_fd = -1;
    dp->senders.seq = seq_create();
    atomic_count_init(&dp->senders.n, 0);
}

void
dpif_xdp_senders_destroy(struct dpif_xdp_dp *dp)
{
    if (dp->senders.stack_fd >= 0) {
        close(dp->senders.stack_fd);
    }
    if (dp->senders.tunnel_fd >= 0) {
        close(dp->senders.tunnel_fd);
    }
    seq_destroy(dp->senders.seq);
}

void
dpif_xdp_senders_run(struct dpif_xdp_dp *dp)
{
    dp->senders.last_seq = seq_read(dp->senders.seq);
}

void
dpif_xdp_senders_wait(const struct dpif_xdp_dp *dp)
{
    seq_wait(dp->senders.seq, dp->senders.last_seq);
}

void
dpif_xdp_sender_init(struct dpif_xdp_sender *sender)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_init(&sender->mutex);
    dp_packet_batch_init(&sender->waiting);
    atomic_init(&sender->any_waiting, false);
    sender->next_look = LLONG_MAX;
}

void
dpif_xdp_sender_destroy(struct dpif_xdp_sender *sender)
{
    ovs_mutex_destroy(&sender->mutex);
}

int
dpif_xdp_sender_prepare(struct dpif_xdp_dp *dp, char **errorp)
{
    if (dp->senders.stack_fd < 0) {
        int fd = oxdp_stack_open(false);

        if (fd < 0) {
            *errorp = xasprintf("cannot open a packet socket to send from "
                                "(%s): run as root, or with CAP_NET_RAW, on "
                                "a kernel with CONFIG_PACKET",
                                ovs_strerror(-fd));
            return -fd;
        }
        dp->senders.stack_fd = fd;
    }
    return 0;
}

void
dpif_xdp_sender_send(struct dpif_xdp_ctx *ctx, struct dpif_xdp_port *port,
                     struct dp_packet_batch *batch, bool more)
{
    struct dpif_xdp_sender *sender = &port->sender;
    bool any_waiting;

    if (sender->sock) {
        dpif_xdp_send_sock(ctx->dp, sender->sock, batch, more);
        return;
    }

    look_at_load(ctx, port, dp_packet_batch_size(batch));
    atomic_read_relaxed(&sender->any_waiting, &any_waiting);
    if (OVS_UNLIKELY(any_waiting)) {
        add_to_waiting(ctx->dp, port, batch);
    } else if (may_open_sock(ctx, port)) {
        send_by_stack(ctx->dp, port, batch);
        if (!dp_packet_batch_is_empty(batch)) {
            add_to_waiting(ctx->dp, port, batch);
        }
    } else {
        send_short_ones(ctx->dp, port, batch);
    }
}

/* Sends those packets of 'batch' that are not too long for a packet socket,
 * and drops the others.  Consumes 'batch'. */
static void
send_short_ones(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                struct dp_packet_batch *batch)
{
    uint64_t orig;

    for (;;) {
        send_by_stack(dp, port, batch);
        if (dp_packet_batch_is_empty(batch)) {
            return;
        }
        dp_packet_delete(batch->packets[0]);
        batch->count--;
        memmove(batch->packets, batch->packets + 1,
                batch->count * sizeof *batch->packets);
        atomic_add_relaxed(&port->sender.n_dropped, 1, &orig);
    }
}

/* Adds 'batch' to what waits until the main thread has opened a socket for
 * 'port', as far as there is room.  Consumes 'batch'. */
static void
add_to_waiting(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
               struct dp_packet_batch *batch)
{
    struct dpif_xdp_sender *sender = &port->sender;
    struct dp_packet *packet;
    size_t n_dropped = 0;

    waiting_lock(sender);
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        if (dp_packet_batch_size(&sender->waiting) == NETDEV_MAX_BURST) {
            dp_packet_delete(packet);
            n_dropped++;
        } else {
            dp_packet_batch_add(&sender->waiting, packet);
        }
    }
    atomic_store(&sender->any_waiting, true);
    waiting_unlock(sender);
    if (n_dropped) {
        dpif_xdp_count_drops(dp, DPIF_XDP_DROP_NO_SOCKET, n_dropped);
    }
    have_main_thread_look(dp, port);
}

/* Sends 'batch' up to the first packet that is too long, which is the first of
 * those that are left in it then. */
static void
send_by_stack(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
              struct dp_packet_batch *batch)
{
    size_t n, n_done;

    do {
        n = MIN(dp_packet_batch_size(batch), NETDEV_MAX_BURST);
        n_done = send_burst_by_stack(dp, port, batch, n);
    } while (n_done == n && !dp_packet_batch_is_empty(batch));
}

/* As send_by_stack(), of the first 'n' of 'batch' at most, NETDEV_MAX_BURST or
 * fewer.  Returns how many have left 'batch'. */
static size_t
send_burst_by_stack(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                    struct dp_packet_batch *batch, size_t n)
{
    struct iovec frames[NETDEV_MAX_BURST];
    uint32_t n_done, n_sent;
    uint64_t orig;

    for (size_t i = 0; i < n; i++) {
        frames[i].iov_base = dp_packet_data(batch->packets[i]);
        frames[i].iov_len = dp_packet_size(batch->packets[i]);
    }
    n_done = oxdp_stack_send(dp->senders.stack_fd, port->device.ifindex,
                             frames, 1, n, &n_sent);
    atomic_add_relaxed(&port->sender.n_sent, n_sent, &orig);
    atomic_add_relaxed(&port->sender.n_dropped, n_done - n_sent, &orig);

    for (size_t i = 0; i < n_done; i++) {
        dp_packet_delete(batch->packets[i]);
    }
    batch->count -= n_done;
    memmove(batch->packets, batch->packets + n_done,
            batch->count * sizeof *batch->packets);
    return n_done;
}

static bool
may_open_sock(const struct dpif_xdp_ctx *ctx,
              const struct dpif_xdp_port *port)
{
    return ctx->now / 1000 >= port->sender.refused_until;
}

static void
have_main_thread_look(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    atomic_store(&port->sender.wanted, true);
    seq_change(dp->senders.seq);
}

/* Packets that two threads count at once may be counted as one: no harm. */
static void
look_at_load(struct dpif_xdp_ctx *ctx, struct dpif_xdp_port *port, size_t n)
{
    struct dpif_xdp_sender *sender = &port->sender;
    long long int now = ctx->now / 1000;
    long long int since;
    uint32_t n_since;
    bool wanted;

    atomic_read_relaxed(&sender->since, &since);
    atomic_read_relaxed(&sender->n_since, &n_since);
    if (now - since >= BUSY_MS) {
        atomic_store_relaxed(&sender->since, now);
        n_since = 0;
    }
    n_since += n;
    atomic_store_relaxed(&sender->n_since, n_since);
    if (n_since >= BUSY_PACKETS && may_open_sock(ctx, port)) {
        atomic_read_relaxed(&sender->wanted, &wanted);
        if (!wanted) {
            have_main_thread_look(ctx->dp, port);
        }
    }
}

/* Sends what waits at 'port', or drops it if the port is not open. */
static void
send_waiting(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQ_WRLOCK(dpif_xdp_tx_rwlock)
{
    struct dpif_xdp_sender *sender = &port->sender;
    struct oxdp_sock *sock = port->n_rxqs ? port->rxqs[0].sock : sender->sock;
    struct dp_packet_batch batch;

    dp_packet_batch_init(&batch);
    waiting_lock(sender);
    dp_packet_batch_swap(&batch, &sender->waiting);
    atomic_store(&sender->any_waiting, false);
    waiting_unlock(sender);

    if (dp_packet_batch_is_empty(&batch)) {
        return;
    }
    if (!port->open) {
        dpif_xdp_count_drops(dp, DPIF_XDP_DROP_PORT_CLOSED,
                             dp_packet_batch_size(&batch));
        dp_packet_delete_batch(&batch, true);
    } else if (sock) {
        dpif_xdp_send_sock(dp, sock, &batch, false);
    } else {
        send_short_ones(dp, port, &batch);
    }
}

/* Opens an AF_XDP socket for 'port', which has none, if there may be one more.
 * Opening takes milliseconds, or seconds if the kernel still closes another on
 * the same queue: so the main thread does it, and not with 'tx_rwlock'. */
static int
open_sock(struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
          struct oxdp_sock **sock)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    return (atomic_count_get(&dp->senders.n) >= DPIF_XDP_MAX_SENDERS
            ? ENOBUFS
            : port->largest_mtu > OXDP_FRAME_MTU && !oxdp_has_multi_buffer()
            ? EMSGSIZE                  /* The packet socket takes them. */
            : -oxdp_sock_open(dpif_xdp_packets_umem(dp->packets),
                              port->device.ifindex, 0, false, 0, sock));
}

/* Whether 'port' is one to which only an AF_XDP socket sends fast, and has
 * none. */
static bool
lacks_sock(const struct dpif_xdp_port *port)
{
    bool lacks;

    dpif_xdp_tx_rdlock(port);
    lacks = port->open && !port->n_rxqs && !port->sender.sock;
    dpif_xdp_tx_unlock(port);
    return lacks;
}

/* Gives 'port' an AF_XDP socket, or notes that it gets none now; then sends
 * what waits for it. */
static void
give_sock(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_sender *sender = &port->sender;
    bool needed = lacks_sock(port);
    struct oxdp_sock *sock = NULL;
    int error = needed ? open_sock(dp, port, &sock) : 0;

    dpif_xdp_tx_wrlock(port);
    if (error) {
        VLOG_DBG("%s: no AF_XDP socket to send from (%s)",
                 netdev_get_name(port->dev), ovs_strerror(error));
        sender->refused_until = (time_msec() + (error == EAGAIN ? BUSY_MS
                                                : REFUSED_MS));
    } else if (needed) {
        sender->sock = sock;
        atomic_count_inc(&dp->senders.n);
    }
    send_waiting(dp, port);
    dpif_xdp_tx_unlock(port);
}

void
dpif_xdp_sender_run(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct dpif_xdp_sender *sender = &port->sender;
    bool wanted;

    atomic_read_relaxed(&sender->wanted, &wanted);
    if (wanted) {
        atomic_store(&sender->wanted, false);
        give_sock(dp, port);
    }
    if (time_msec() >= sender->next_look || wanted) {
        uint64_t n_before = sender->n_at_look;
        uint64_t n_dropped;
        bool has_sock;

        has_sock = dpif_xdp_sender_get_stats(port, &sender->n_at_look,
                                             &n_dropped);
        if (!has_sock
            || (!wanted && sender->n_at_look - n_before < BUSY_PACKETS)) {
            close_sock(dp, port);
        } else {
            sender->next_look = time_msec() + LOOK_MS;
        }
    }
}

void
dpif_xdp_sender_wait(const struct dpif_xdp_port *port)
{
    if (port->sender.next_look != LLONG_MAX) {
        poll_timer_wait_until(port->sender.next_look);
    }
}

static void
close_sock(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct dpif_xdp_sender *sender = &port->sender;
    struct oxdp_sock *sock;

    sender->next_look = LLONG_MAX;
    dpif_xdp_tx_wrlock(port);
    sock = sender->sock;
    sender->sock = NULL;
    if (sock) {
        atomic_count_dec(&dp->senders.n);
    }
    dpif_xdp_tx_unlock(port);
    dpif_xdp_sender_retire(port, sock);
}

void
dpif_xdp_sender_retire(struct dpif_xdp_port *port, struct oxdp_sock *sock)
{
    if (sock) {
        struct oxdp_sock_stats stats;
        uint64_t orig;

        oxdp_sock_get_stats(sock, &stats);
        atomic_add_relaxed(&port->sender.n_sent, stats.tx_packets, &orig);
        atomic_add_relaxed(&port->sender.n_dropped,
                           oxdp_sock_send_drops(&stats), &orig);
        oxdp_sock_close_later(sock);
    }
}

void
dpif_xdp_sender_stop(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    close_sock(dp, port);
}

/* At the end of 'port', which is not open any more. */
void
dpif_xdp_sender_close(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    close_sock(dp, port);
    atomic_store(&port->sender.wanted, false);
    dpif_xdp_tx_wrlock(port);
    port->sender.refused_until = 0;
    send_waiting(dp, port);
    dpif_xdp_tx_unlock(port);
}

bool
dpif_xdp_sender_is_alive(struct dpif_xdp_port *port)
{
    bool alive;

    dpif_xdp_tx_rdlock(port);
    alive = !port->sender.sock || oxdp_sock_alive(port->sender.sock);
    dpif_xdp_tx_unlock(port);
    return alive;
}

bool
dpif_xdp_sender_get_stats(struct dpif_xdp_port *port, uint64_t *n_sent,
                          uint64_t *n_dropped)
{
    struct dpif_xdp_sender *sender = &port->sender;
    bool has_sock;

    dpif_xdp_tx_rdlock(port);
    atomic_read_relaxed(&sender->n_sent, n_sent);
    atomic_read_relaxed(&sender->n_dropped, n_dropped);
    has_sock = sender->sock;
    if (has_sock) {
        struct oxdp_sock_stats stats;

        oxdp_sock_get_stats(sender->sock, &stats);
        *n_sent += stats.tx_packets;
        *n_dropped += oxdp_sock_send_drops(&stats);
    }
    dpif_xdp_tx_unlock(port);
    return has_sock;
}

uint64_t
dpif_xdp_sender_all_drops(void *port_)
{
    struct dpif_xdp_port *port = port_;
    uint64_t n_sent, n_dropped;

    dpif_xdp_sender_get_stats(port, &n_sent, &n_dropped);
    dpif_xdp_tx_rdlock(port);
    for (size_t i = 0; i < port->n_rxqs; i++) {
        if (port->rxqs[i].sock) {
            struct oxdp_sock_stats stats;

            oxdp_sock_get_stats(port->rxqs[i].sock, &stats);
            n_dropped += oxdp_sock_send_drops(&stats);
        }
    }
    dpif_xdp_tx_unlock(port);
    return n_dropped;
}
