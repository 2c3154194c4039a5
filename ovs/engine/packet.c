/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/engine/packet.h"

#include <errno.h>
#include <string.h>

#include "core/xsk/sock.h"
#include "core/xsk/umem.h"
#include "dp-packet.h"
#include "ovs/base/compat.h"
#include "util.h"
#include "netdev-afxdp-pool.h"
#include "ovs/engine/engine_private.h"

struct dpif_xdp_packets {
    struct oxdp_umem *umem;
    char *base;                         /* Of the UMEM. */
    uint32_t n_frames;
    struct umem_pool freed;             /* Frames freed by the libraries. */
    struct dp_packet_afxdp *meta;       /* One per frame, same index. */
};

/* Bytes of heap headroom behind which a copied packet can grow further. */
#define COPY_HEADROOM 128

static bool
is_umem_packet(const struct dpif_xdp_packets *packets,
               const struct dp_packet *packet)
{
    return (packet->source == DPBUF_AFXDP
            && CONTAINER_OF(packet, struct dp_packet_afxdp, packet)->mpool
               == &packets->freed);
}

int
dpif_xdp_packets_create(uint32_t n_frames, struct dpif_xdp_packets **retp)
{
    struct dpif_xdp_packets *packets = xzalloc(sizeof *packets);
    int error;

    error = -oxdp_umem_create(n_frames, &packets->umem);
    if (error) {
        free(packets);
        return error;
    }
    packets->base = oxdp_umem_base(packets->umem);
    packets->n_frames = n_frames;

    error = umem_pool_init(&packets->freed, n_frames);
    if (error) {
        oxdp_umem_destroy(packets->umem);
        free(packets);
        return ENOMEM;
    }
    packets->meta = xzalloc_cacheline(n_frames * sizeof *packets->meta);
    for (uint32_t i = 0; i < n_frames; i++) {
        packets->meta[i].mpool = &packets->freed;
    }
    *retp = packets;
    return 0;
}

void
dpif_xdp_packets_destroy(struct dpif_xdp_packets *packets)
{
    if (packets) {
        oxdp_umem_destroy(packets->umem);
        umem_pool_cleanup(&packets->freed);
        free_cacheline(packets->meta);
        free(packets);
    }
}

struct oxdp_umem *
dpif_xdp_packets_umem(const struct dpif_xdp_packets *packets)
{
    return packets->umem;
}

void
dpif_xdp_packet_prefetch(const struct dpif_xdp_packets *packets,
                         const struct oxdp_desc *desc)
{
    const char *data = packets->base + desc->addr;
    const char *meta = (const char *) &packets->meta[desc->addr
                                                     / OXDP_FRAME_SIZE];

    /* The kernel wrote them on another CPU: all at once, not one by one. */
    OVS_PREFETCH(data);
    OVS_PREFETCH(data + CACHE_LINE_SIZE);
    OVS_PREFETCH_WRITE(meta);
    OVS_PREFETCH_WRITE(meta + CACHE_LINE_SIZE);
}

struct dp_packet *
dpif_xdp_packet_from_desc(struct dpif_xdp_packets *packets,
                          const struct oxdp_desc *desc)
{
    struct dp_packet *packet
        = &packets->meta[desc->addr / OXDP_FRAME_SIZE].packet;

    dp_packet_use_afxdp(packet, packets->base + desc->addr, OXDP_FRAME_SIZE,
                        desc->addr % OXDP_FRAME_SIZE);
    dp_packet_set_size(packet, desc->len);
    return packet;
}

struct dp_packet *
dpif_xdp_packet_from_buffers(struct dpif_xdp_packets *packets,
                            const struct oxdp_desc *descs, uint32_t n)
{
    struct dp_packet *packet;
    uint32_t size = 0;

    for (uint32_t i = 0; i < n; i++) {
        size += descs[i].len;
    }
    packet = dp_packet_new_with_headroom(size, COPY_HEADROOM);
    for (uint32_t i = 0; i < n; i++) {
        dp_packet_put(packet, packets->base + descs[i].addr, descs[i].len);
        oxdp_umem_put(packets->umem, &descs[i].addr, 1);
    }
    return packet;
}

uint32_t
dpif_xdp_packet_to_descs(struct dpif_xdp_packets *packets,
                         struct dp_packet *packet, bool multi_buffer,
                         struct oxdp_desc *descs, bool *too_long)
{
    uint32_t left = dp_packet_size(packet);
    const char *data = dp_packet_data(packet);
    uint64_t addrs[OXDP_MAX_BUFFERS];
    uint32_t n, n_free;

    if (is_umem_packet(packets, packet)) {
        descs[0].addr = data - packets->base;
        descs[0].len = left;
        descs[0].more = false;
        return 1;
    }

    n = left > OXDP_FRAME_SIZE ? DIV_ROUND_UP(left, OXDP_FRAME_SIZE) : 1;
    *too_long = n > (multi_buffer ? OXDP_MAX_BUFFERS : 1);
    if (*too_long) {
        return 0;
    }
    n_free = oxdp_umem_get(packets->umem, addrs, n);
    if (n_free < n) {
        oxdp_umem_put(packets->umem, addrs, n_free);
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        descs[i].addr = addrs[i];
        descs[i].len = MIN(left, OXDP_FRAME_SIZE);
        descs[i].more = i + 1 < n;
        memcpy(packets->base + addrs[i], data, descs[i].len);
        data += descs[i].len;
        left -= descs[i].len;
    }
    dp_packet_delete(packet);
    return n;
}

struct dp_packet *
dpif_xdp_packet_clone(struct dpif_xdp_packets *packets,
                      const struct dp_packet *packet)
{
    struct oxdp_desc desc = { .more = false };

    if (!packets || !is_umem_packet(packets, packet)
        || !oxdp_umem_get(packets->umem, &desc.addr, 1)) {
        return dp_packet_clone_with_headroom(packet, COPY_HEADROOM);
    }

    desc.addr += dp_packet_headroom(packet);
    desc.len = dp_packet_size(packet);

    struct dp_packet *copy = dpif_xdp_packet_from_desc(packets, &desc);
    memcpy(dp_packet_data(copy), dp_packet_data(packet), desc.len);
    dpif_xdp_packet_copy_metadata(copy, packet);
    return copy;
}

void
dpif_xdp_packets_make_room(struct dp_packet_batch *batch, size_t headroom)
{
    struct dp_packet *packet;

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        if (packet->source == DPBUF_AFXDP
            && dp_packet_headroom(packet) < headroom) {
            batch->packets[i]
                = dp_packet_clone_with_headroom(packet,
                                                headroom + COPY_HEADROOM);
            dp_packet_delete(packet);
        }
    }
}

void
dpif_xdp_packets_reclaim(struct dpif_xdp_packets *packets)
{
    while (umem_pool_count(&packets->freed)) {
        uint64_t addrs[NETDEV_MAX_BURST];
        void *elems[NETDEV_MAX_BURST];
        int n = 0;

        while (n < NETDEV_MAX_BURST
               && (elems[n] = umem_elem_pop(&packets->freed)) != NULL) {
            addrs[n] = (char *) elems[n] - packets->base;
            n++;
        }
        if (!n) {
            break;
        }
        oxdp_umem_put(packets->umem, addrs, n);
    }
}

void
dpif_xdp_send_sock(struct dpif_xdp_dp *dp, struct oxdp_sock *sock,
                   struct dp_packet_batch *batch, bool more)
{
    struct oxdp_desc descs[NETDEV_MAX_BURST + OXDP_MAX_BUFFERS];
    bool multi_buffer = oxdp_sock_multi_buffer(sock);
    struct dp_packet *packet;
    uint32_t n = 0;

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        bool too_long;
        uint32_t n_now = dpif_xdp_packet_to_descs(dp->packets, packet,
                                                  multi_buffer,
                                                  &descs[n], &too_long);

        if (OVS_UNLIKELY(!n_now)) {
            dpif_xdp_count_drops(dp,
                                 too_long ? DPIF_XDP_DROP_TOO_LONG
                                 : DPIF_XDP_DROP_NO_FRAME, 1);
            dp_packet_delete(packet);
        }
        n += n_now;
        if (OVS_UNLIKELY(n > NETDEV_MAX_BURST)) {
            oxdp_sock_tx_queue(sock, descs, n);
            n = 0;
        }
    }
    if (more) {
        oxdp_sock_tx_queue(sock, descs, n);
    } else {
        oxdp_sock_tx(sock, descs, n);
    }
}
