/* SPDX-License-Identifier: Apache-2.0 */
/* Sending to ports at tcx, which have no AF_XDP sockets to receive from.
 *
 * An AF_XDP socket is the fastest way to send, but costs the kernel 128 bytes
 * for each packet buffer of the datapath, and milliseconds to open: too much
 * for a thousand containers to which the engine sends a packet now and then.
 * So a packet socket that all ports share does it (core/xsk/stack.h), and a port
 * has an AF_XDP socket while the engine sends much to it, or what is longer
 * than a packet socket sends: a few bytes more than the MTU, such as a label,
 * pass through many devices.  Both ways a packet is with the device when the
 * system call returns: packets do not change places when the way changes.
 *
 * Measured, to receive, look up, truncate and send a packet of 64 bytes: 0.80
 * us of CPU time with AF_XDP, 1.29 with the packet socket. */
#include <config.h>

#include "ovs/engine/engine_private.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "core/xsk/stack.h"
#include "netdev-provider.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "timeval.h"
#include "util.h"
#include "core/xsk/sock.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_send);

/* A port to which the engine sends so many packets within a second gets an
 * AF_XDP socket, and loses it when it sent fewer in ten. */
#define BUSY_PACKETS 1000
#define BUSY_MS 1000
#define LOOK_MS 10000

#define REFUSED_MS 60000                /* Between tries to open one. */

static size_t send_by_stack(struct dpif_xdp_ctx *, struct dpif_xdp_port *,
                            struct dp_packet_batch *);
static void look_at_load(struct dpif_xdp_ctx *, struct dpif_xdp_port *,
                         size_t n);
static bool may_open_sock(const struct dpif_xdp_ctx *,
                          const struct dpif_xdp_port *);
static void close_sock(struct dpif_xdp_dp *, struct dpif_xdp_port *);

void
dpif_xdp_senders_init(struct dpif_xdp_dp *dp)
{
    dp->senders.stack_fd = -1;
    dp->senders.seq = seq_create();
    ovs_mutex_init(&dp->senders.mutex);
    atomic_count_init(&dp->senders.n, 0);
}

void
dpif_xdp_senders_destroy(struct dpif_xdp_dp *dp)
{
    if (dp->senders.stack_fd >= 0) {
        close(dp->senders.stack_fd);
    }
    seq_destroy(dp->senders.seq);
    ovs_mutex_destroy(&dp->senders.mutex);
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

int
dpif_xdp_sender_prepare(struct dpif_xdp_dp *dp, char **errorp)
{
    if (dp->senders.stack_fd < 0) {
        int fd = oxdp_stack_open();

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

bool
dpif_xdp_sender_send(struct dpif_xdp_ctx *ctx, struct dpif_xdp_port *port,
                     struct dp_packet_batch *batch, bool more)
{
    size_t n = dp_packet_batch_size(batch);

    if (port->sender.sock) {
        dpif_xdp_send_sock(ctx, port->sender.sock, batch, more);
        return true;
    }

    look_at_load(ctx, port, n);
    for (size_t done = 0; done < n; ) {
        done += send_by_stack(ctx, port, batch);
        if (done < n) {
            uint64_t orig;

            if (may_open_sock(ctx, port)) {
                return false;
            }
            dp_packet_delete(batch->packets[0]);
            batch->count--;
            memmove(batch->packets, batch->packets + 1,
                    batch->count * sizeof *batch->packets);
            atomic_add_relaxed(&port->sender.n_dropped, 1, &orig);
            done++;
        }
    }
    return true;
}

/* Sends 'batch' up to the first packet that is too long, which is the first of
 * those that are left in it then.  Returns how many are not. */
static size_t
send_by_stack(struct dpif_xdp_ctx *ctx, struct dpif_xdp_port *port,
              struct dp_packet_batch *batch)
{
    size_t n = dp_packet_batch_size(batch);
    struct iovec frames[NETDEV_MAX_BURST];
    struct dp_packet *packet;
    uint32_t n_done, n_sent;
    uint64_t orig;

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        frames[i].iov_base = dp_packet_data(packet);
        frames[i].iov_len = dp_packet_size(packet);
    }
    n_done = oxdp_stack_send(ctx->dp->senders.stack_fd, port->device.ifindex, frames,
                             n, &n_sent);
    atomic_add_relaxed(&port->sender.n_sent, n_sent, &orig);
    atomic_add_relaxed(&port->sender.n_dropped, n_done - n_sent, &orig);

    for (size_t i = 0; i < n_done; i++) {
        dp_packet_delete(batch->packets[i]);
    }
    batch->count = n - n_done;
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

/* Gives 'port' an AF_XDP socket, or notes that it gets none now.  Any thread;
 * not with 'port->tx_rwlock', so that others can send meanwhile. */
void
dpif_xdp_sender_open_sock(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct dpif_xdp_sender *sender = &port->sender;
    struct oxdp_sock *sock = NULL;
    int ifindex, error;

    ovs_mutex_lock(&dp->senders.mutex);
    ovs_rwlock_rdlock(&port->tx_rwlock);
    ifindex = (port->open && !port->n_rxqs && !sender->sock
               ? port->device.ifindex : 0);
    ovs_rwlock_unlock(&port->tx_rwlock);

    if (ifindex) {
        error = (atomic_count_get(&dp->senders.n) >= DPIF_XDP_MAX_SENDERS
                 ? ENOBUFS
                 : -oxdp_sock_open(dpif_xdp_packets_umem(dp->packets),
                                   ifindex, 0, false, 0, &sock));

        ovs_rwlock_wrlock(&port->tx_rwlock);
        if (error) {
            VLOG_DBG("%s: no AF_XDP socket to send from (%s)",
                     netdev_get_name(port->dev), ovs_strerror(error));
            sender->refused_until = time_msec() + REFUSED_MS;
        } else if (port->open && !port->n_rxqs
                   && port->device.ifindex == ifindex) {
            sender->sock = sock;
            sock = NULL;
            atomic_count_inc(&dp->senders.n);
            have_main_thread_look(dp, port);
        }
        ovs_rwlock_unlock(&port->tx_rwlock);
        oxdp_sock_close_later(sock);
    }
    ovs_mutex_unlock(&dp->senders.mutex);
}

void
dpif_xdp_sender_run(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct dpif_xdp_sender *sender = &port->sender;
    bool wanted;

    atomic_read_relaxed(&sender->wanted, &wanted);
    if (wanted) {
        dpif_xdp_sender_open_sock(dp, port);
        atomic_store(&sender->wanted, false);
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
    ovs_rwlock_wrlock(&port->tx_rwlock);
    sock = sender->sock;
    sender->sock = NULL;
    if (sock) {
        struct oxdp_sock_stats stats;
        uint64_t orig;

        oxdp_sock_get_stats(sock, &stats);
        atomic_add_relaxed(&sender->n_sent, stats.tx_packets, &orig);
        atomic_add_relaxed(&sender->n_dropped, stats.tx_dropped, &orig);
        atomic_count_dec(&dp->senders.n);
    }
    ovs_rwlock_unlock(&port->tx_rwlock);
    oxdp_sock_close_later(sock);
}

void
dpif_xdp_sender_stop(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    ovs_mutex_lock(&dp->senders.mutex);
    close_sock(dp, port);
}

void
dpif_xdp_sender_may_start(struct dpif_xdp_dp *dp)
{
    ovs_mutex_unlock(&dp->senders.mutex);
}

/* At the end of 'port', which is not open any more. */
void
dpif_xdp_sender_close(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    close_sock(dp, port);
    atomic_store(&port->sender.wanted, false);
    ovs_rwlock_wrlock(&port->tx_rwlock);
    port->sender.refused_until = 0;
    ovs_rwlock_unlock(&port->tx_rwlock);
}

bool
dpif_xdp_sender_is_alive(struct dpif_xdp_port *port)
{
    bool alive;

    ovs_rwlock_rdlock(&port->tx_rwlock);
    alive = !port->sender.sock || oxdp_sock_alive(port->sender.sock);
    ovs_rwlock_unlock(&port->tx_rwlock);
    return alive;
}

bool
dpif_xdp_sender_get_stats(struct dpif_xdp_port *port, uint64_t *n_sent,
                          uint64_t *n_dropped)
{
    struct dpif_xdp_sender *sender = &port->sender;
    bool has_sock;

    ovs_rwlock_rdlock(&port->tx_rwlock);
    atomic_read_relaxed(&sender->n_sent, n_sent);
    atomic_read_relaxed(&sender->n_dropped, n_dropped);
    has_sock = sender->sock;
    if (has_sock) {
        struct oxdp_sock_stats stats;

        oxdp_sock_get_stats(sender->sock, &stats);
        *n_sent += stats.tx_packets;
        *n_dropped += stats.tx_dropped;
    }
    ovs_rwlock_unlock(&port->tx_rwlock);
    return has_sock;
}
