/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: packets wait in one batch per port until the burst that produced
 * them is done, then leave together. */
#include <config.h>

#include "ovs/engine/engine_private.h"

#include "netdev-provider.h"
#include "ovs/base/compat.h"
#include "packets.h"
#include "timeval.h"

static bool is_over_mtu(const struct dpif_xdp_port *,
                        const struct dp_packet *, uint32_t size);
static void send_batch(struct dpif_xdp_ctx *, struct dpif_xdp_port *,
                       struct dp_packet_batch *, bool more);
static struct dpif_xdp_out *find_out(struct dpif_xdp_ctx *,
                                     struct dpif_xdp_port *, size_t n);

bool
dpif_xdp_output(struct dpif_xdp_ctx *ctx, struct dp_packet_batch *batch,
                bool should_steal, odp_port_t port_no)
{
    struct dpif_xdp_port *port = dpif_xdp_port_lookup(ctx->dp, port_no);
    size_t n = dp_packet_batch_size(batch);

    if (OVS_UNLIKELY(!port || (!port->can_send
                               && !dpif_xdp_host_tunnel_is(port)))) {
        dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_INVALID_PORT, n);
        dp_packet_delete_batch(batch, should_steal);
        return false;
    }

    if (dpif_xdp_is_traced()) {
        dpif_xdp_trace_note(ctx->dp, "sent to port %"PRIu32" (%s)", port_no,
                            netdev_get_name(port->netdev));
    }

    struct dpif_xdp_out *out = find_out(ctx, port, n);
    struct dp_packet *packet;

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        uint32_t cutlen = dp_packet_get_cutlen(packet);

        if (!should_steal) {
            dp_packet_reset_cutlen(packet);
        }
        if (OVS_UNLIKELY(is_over_mtu(port, packet,
                                     dp_packet_size(packet) - cutlen))) {
            dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_OVER_MTU, 1);
            if (should_steal) {
                dp_packet_delete(packet);
            }
            continue;
        }
        if (!should_steal) {
            packet = dpif_xdp_packet_clone(ctx->dp->packets, packet);
        }
        if (cutlen) {
            dp_packet_set_size(packet, dp_packet_size(packet) - cutlen);
            dp_packet_reset_cutlen(packet);
        }
        dp_packet_batch_add(&out->batch, packet);
    }
    if (batch->trunc && !should_steal) {
        batch->trunc = false;
    }
    return true;
}

/* Whether 'packet', of which 'size' bytes leave, is too long for the
 * device of 'port': one VLAN tag does not count, as in openvswitch.ko. */
static bool
is_over_mtu(const struct dpif_xdp_port *port, const struct dp_packet *packet,
            uint32_t size)
{
    const struct eth_header *eth = dp_packet_data(packet);
    uint32_t max_len;

    atomic_read_relaxed(&CONST_CAST(struct dpif_xdp_port *, port)->max_len,
                        &max_len);
    return (OVS_UNLIKELY(size > max_len)
            && (!eth_type_vlan(eth->eth_type)
                || size - VLAN_HEADER_LEN > max_len));
}

void
dpif_xdp_output_flush(struct dpif_xdp_ctx *ctx)
{
    for (size_t i = 0; i < ctx->n_out; i++) {
        send_batch(ctx, ctx->out[i].port, &ctx->out[i].batch, false);
        dp_packet_batch_destroy(&ctx->out[i].batch);
    }
    ctx->n_out = 0;
    if (ctx->dp->packets) {
        dpif_xdp_packets_reclaim(ctx->dp->packets);
    }
}

/* The batch in 'ctx' for 'port', with room for 'n' more packets. */
static struct dpif_xdp_out *
find_out(struct dpif_xdp_ctx *ctx, struct dpif_xdp_port *port, size_t n)
{
    struct dpif_xdp_out *out;

    for (size_t i = 0; i < ctx->n_out; i++) {
        out = &ctx->out[i];
        if (out->port == port) {
            if (dp_packet_batch_size(&out->batch) + n > NETDEV_MAX_BURST) {
                send_batch(ctx, port, &out->batch, true);
                dp_packet_batch_reset(&out->batch);
            }
            return out;
        }
    }

    if (ctx->n_out == DPIF_XDP_MAX_OUT) {
        dpif_xdp_output_flush(ctx);
    }
    out = &ctx->out[ctx->n_out++];
    out->port = port;
    dp_packet_batch_init(&out->batch);
    return out;
}

static void
send_batch(struct dpif_xdp_ctx *ctx, struct dpif_xdp_port *port,
           struct dp_packet_batch *batch, bool more)
{
    size_t n = dp_packet_batch_size(batch);

    dpif_xdp_tx_rdlock(port);
    if (OVS_UNLIKELY(!port->open)) {
        dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_PORT_CLOSED, n);
        dp_packet_delete_batch(batch, true);
    } else if (OVS_UNLIKELY(!port->can_send)) {
        dpif_xdp_packets_complete(batch);
        dpif_xdp_host_tunnel_send(ctx->dp, port, batch);
    } else if (port->is_device && !port->packet_socket && !port->shaped
               && !ctx->via_stack) {
        dpif_xdp_packets_complete(batch);
        if (port->n_rxqs) {
            dpif_xdp_send_sock(
                ctx->dp, port->rxqs[ctx->tx_queue % port->n_txqs].sock, batch,
                more);
        } else {
            dpif_xdp_sender_send(ctx, port, batch, more);
        }
    } else if (OVS_UNLIKELY(netdev_send(port->dev, 0, batch, true))) {
        dpif_xdp_count_drops(ctx->dp, DPIF_XDP_DROP_SEND_ERROR, n);
    }
    dpif_xdp_tx_unlock(port);
}
