/* SPDX-License-Identifier: Apache-2.0 */
/* Packets in the UMEM as Open vSwitch's struct dp_packet.
 *
 * One UMEM per datapath; beside it, apart from the frames and preallocated,
 * one struct dp_packet per frame.  A dp_packet of source DPBUF_AFXDP belongs
 * to the frame with the same index.  Open vSwitch's libraries may free such a
 * packet (dp_packet_delete()): its frame then waits in a pool that
 * dpif_xdp_packets_reclaim() empties. */
#ifndef DPIF_XDP_PACKET_H
#define DPIF_XDP_PACKET_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_packet;
struct dp_packet_batch;
struct dpif_xdp_packets;
struct oxdp_desc;
struct oxdp_umem;

/* Creates a UMEM of 'n_frames' frames with their metadata.  Returns 0 or a
 * positive errno. */
int dpif_xdp_packets_create(uint32_t n_frames, struct dpif_xdp_packets **);
void dpif_xdp_packets_destroy(struct dpif_xdp_packets *);

struct oxdp_umem *dpif_xdp_packets_umem(const struct dpif_xdp_packets *);

/* Fetches into the cache what dpif_xdp_packet_from_desc() and looking at the
 * packet's headers will need. */
void dpif_xdp_packet_prefetch(const struct dpif_xdp_packets *,
                              const struct oxdp_desc *);

/* The packet of a received frame, whose data starts at 'desc->addr'. */
struct dp_packet *dpif_xdp_packet_from_desc(struct dpif_xdp_packets *,
                                            const struct oxdp_desc *);

/* A packet that was received in the 'n' frames of 'descs': a copy on the heap,
 * in one piece.  The frames are free then. */
struct dp_packet *dpif_xdp_packet_from_buffers(struct dpif_xdp_packets *,
                                              const struct oxdp_desc *descs,
                                              uint32_t n);

/* Turns 'packet', which is consumed, into frames ready for sending, several
 * only if 'multi_buffer', and stores them in 'descs', which has room for
 * OXDP_MAX_BUFFERS.  Returns how many.  0, with 'packet' still the caller's:
 * no free frame ('*too_long' false) or too long ('*too_long' true). */
uint32_t dpif_xdp_packet_to_descs(struct dpif_xdp_packets *,
                                  struct dp_packet *, bool multi_buffer,
                                  struct oxdp_desc *descs, bool *too_long);

/* A copy of 'packet', in the UMEM where possible. */
struct dp_packet *dpif_xdp_packet_clone(struct dpif_xdp_packets *,
                                        const struct dp_packet *);

/* Replaces in 'batch' each packet in the UMEM with less than 'headroom' bytes
 * in front, which could not grow, by a copy on the heap. */
void dpif_xdp_packets_make_room(struct dp_packet_batch *, size_t headroom);

/* Puts frames that the libraries freed back on the UMEM's stack. */
void dpif_xdp_packets_reclaim(struct dpif_xdp_packets *);

#endif /* ovs/engine/packet.h */
