/* SPDX-License-Identifier: Apache-2.0 */
/* One UMEM: the packet memory that all AF_XDP sockets of a datapath share.
 *
 * A UMEM is an array of frames of OXDP_FRAME_SIZE bytes.  Free frames wait on one LIFO stack,
 * so that the frame used last, still in the cache, is used next.  Every frame has an owner:
 * the stack, a socket (its fill, receive, transmit or completion ring), or the caller.  When a
 * socket closes, the frames that it owned return to the stack: nothing leaks.
 *
 * Thread-safe: all functions may be called from any thread, create and destroy excepted.
 */
#ifndef OXDP_UMEM_H
#define OXDP_UMEM_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a frame: a page, the largest that an aligned UMEM allows (Linux
 * Documentation/networking/af_xdp.rst), with room for MTU 3498 and two VLAN tags behind the
 * kernel's headroom of 256 bytes (XDP_PACKET_HEADROOM). */
#define OXDP_FRAME_SIZE 4096u

/* Frames of a datapath unless other_config:xdp-umem-frames says otherwise. */
#define OXDP_DEFAULT_FRAMES 8192u

struct oxdp_umem;

/* Allocates and registers a UMEM of 'n_frames' frames (n_frames * OXDP_FRAME_SIZE bytes of
 * locked memory).  Returns 0 and stores it in '*ret_umem', or a negative errno: -EINVAL for
 * zero frames, -ENOMEM, -ENOBUFS (RLIMIT_MEMLOCK), -EPERM, -EAFNOSUPPORT (no CONFIG_XDP_SOCKETS). */
int oxdp_umem_create(uint32_t n_frames, struct oxdp_umem **ret_umem);

/* Frees 'umem', whose sockets must be closed.  NULL is allowed. */
void oxdp_umem_destroy(struct oxdp_umem *umem);

/* The memory: frame i starts at base + i * OXDP_FRAME_SIZE. */
void *oxdp_umem_base(const struct oxdp_umem *umem);
uint32_t oxdp_umem_n_frames(const struct oxdp_umem *umem);

/* Free frames on the stack now. */
uint32_t oxdp_umem_n_free(const struct oxdp_umem *umem);

/* Takes up to 'n' frames off the stack; stores their addresses (byte offsets from the base,
 * multiples of OXDP_FRAME_SIZE) in 'addrs'; returns how many.  The caller owns them. */
uint32_t oxdp_umem_get(struct oxdp_umem *umem, uint64_t addrs[], uint32_t n);

/* Gives back 'n' frames that the caller owns.  An address may point anywhere into its frame. */
void oxdp_umem_put(struct oxdp_umem *umem, const uint64_t addrs[], uint32_t n);

#endif /* core/xsk/umem.h */
