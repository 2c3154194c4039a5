/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-buffer frames: longer than the buffer of a driver or a frame of the UMEM, they lie in several.  XDP programs
 * (BPF_F_XDP_HAS_FRAGS) have such frames since Linux 5.18, AF_XDP sockets (XDP_USE_SG) since 6.6.  Both are needed. */
#ifndef OXDP_MULTI_BUFFER_H
#define OXDP_MULTI_BUFFER_H 1

#include <stdbool.h>
#include <stdint.h>

/* Largest MTU (bytes) of a frame in one piece at XDP: that of a UMEM frame less headroom, record, Ethernet header and
 * two VLAN tags; and the largest of a packet that tcx hands to the engine, in a frame with more headers. */
#define OXDP_FRAME_MTU 3498u
#define OXDP_FRAME_TCX_MTU 3450u

/* Largest MTU with multi-buffer frames that is served: that of Ethernet's usual jumbo frames. */
#define OXDP_JUMBO_MTU 9216u

/* Largest MTU that a veth has. */
#define OXDP_VETH_MTU 65535u

/* Bytes of a frame with MTU 'mtu': with Ethernet header and two VLAN tags. */
#define OXDP_FRAME_LEN(mtu) ((mtu) + 14u + 2 * 4u)

/* Whether this kernel has all that.  Any thread; asked once. */
bool oxdp_has_multi_buffer(void);

/* Largest MTU of a port at XDP, and of an internal port. */
uint32_t oxdp_max_mtu(void);
uint32_t oxdp_max_internal_mtu(void);

#endif /* core/multi_buffer.h */
