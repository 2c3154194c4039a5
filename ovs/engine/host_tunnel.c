/* SPDX-License-Identifier: Apache-2.0 */
/* Sending into tunnels by the routes of the host: each packet goes to the
 * kernel's device for them (ovs/ports/host_tunnel.c), with the tunnel's
 * metadata behind it, as its "set(tunnel(...))" said.  A program at the
 * device's egress hands that to the kernel (bpf/host_tunnel.h).
 *
 * A packet that the host cannot send, because it has no route or no neighbour,
 * is dropped by the host, as with openvswitch.ko. */
#include <config.h>

#include "ovs/engine/engine_private.h"

#include <string.h>

#include "core/xsk/stack.h"
#include "dp/tunnel_out.h"
#include "ovs/base/compat.h"
#include "ovs/fastpath/compile.h"
#include "packets.h"
#include "util.h"

/* What follows a frame. */
struct behind {
    uint8_t options[DP_TUNNEL_MAX_OPTIONS];     /* At the end of these. */
    struct dp_tunnel_out out;
};
BUILD_ASSERT_DECL(sizeof(struct behind)
                  == DP_TUNNEL_MAX_OPTIONS + sizeof(struct dp_tunnel_out));

/* Fills '*behind' for 'packet'.  Returns where it begins, and its length in
 * '*ret_len'; NULL if the packet is for no tunnel. */
static const void *
fill(const struct dp_packet *packet, struct behind *behind, size_t *ret_len)
{
    const struct flow_tnl *tunnel = &packet->md.tunnel;
    uint8_t *begin;

    if (!dpif_xdp_compile_tunnel_out(tunnel, &behind->out)) {
        return NULL;
    }
    behind->out.mark = packet->md.pkt_mark;
    behind->out.priority = packet->md.skb_priority;
    begin = (behind->options + sizeof behind->options
             - behind->out.options_len);
    memcpy(begin, tunnel->metadata.opts.u8, behind->out.options_len);
    *ret_len = behind->out.options_len + sizeof behind->out;
    return begin;
}

int
dpif_xdp_host_tunnels_prepare(struct dpif_xdp_dp *dp, char **errorp)
{
    if (dp->senders.tunnel_fd < 0) {
        int fd = oxdp_stack_open(true);

        if (fd < 0) {
            *errorp = xasprintf("cannot open a packet socket to send from "
                                "(%s): run as root, or with CAP_NET_RAW, on "
                                "a kernel with CONFIG_PACKET",
                                ovs_strerror(-fd));
            return -fd;
        }
        dp->senders.tunnel_fd = fd;
    }
    return 0;
}

/* Sends the first 'n' of 'batch', NETDEV_MAX_BURST or fewer, to device
 * 'ifindex'.  Returns how many the device took. */
static size_t
send_burst(struct dpif_xdp_dp *dp, int ifindex, struct dp_packet *packets[],
           size_t n)
{
    struct behind behinds[NETDEV_MAX_BURST];
    struct iovec parts[2 * NETDEV_MAX_BURST];
    size_t n_frames = 0, n_taken = 0, done = 0;

    for (size_t i = 0; i < n; i++) {
        struct iovec *part = &parts[2 * n_frames];
        const void *behind = fill(packets[i], &behinds[i], &part[1].iov_len);

        if (behind) {
            part[0].iov_base = dp_packet_data(packets[i]);
            part[0].iov_len = dp_packet_size(packets[i]);
            part[1].iov_base = CONST_CAST(void *, behind);
            n_frames++;
        }
    }
    while (done < n_frames) {
        uint32_t n_sent;

        done += oxdp_stack_send(dp->senders.tunnel_fd, ifindex,
                                &parts[2 * done], 2, n_frames - done, &n_sent);
        n_taken += n_sent;
        done += done < n_frames;        /* That one is too long. */
    }
    return n_taken;
}

void
dpif_xdp_host_tunnel_send(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                          struct dp_packet_batch *batch)
{
    size_t n = dp_packet_batch_size(batch);
    size_t n_taken = 0;
    uint64_t orig;
    int ifindex;

    atomic_read_relaxed(&port->host_tunnel.ifindex, &ifindex);
    for (size_t i = 0; ifindex && i < n; i += NETDEV_MAX_BURST) {
        n_taken += send_burst(dp, ifindex, &batch->packets[i],
                              MIN(n - i, NETDEV_MAX_BURST));
    }
    atomic_add_relaxed(&port->sender.n_sent, n_taken, &orig);
    if (n_taken < n) {
        atomic_add_relaxed(&port->sender.n_dropped, n - n_taken, &orig);
        dpif_xdp_count_drops(dp, DPIF_XDP_DROP_TUNNEL_PUSH, n - n_taken);
    }
    dp_packet_delete_batch(batch, true);
}
