/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A detour: an operation needs what only a device of the kernel can do to the packet.  Programs at tcx send it there,
 * and get it back before anything else runs on this CPU (bpf/detour.h).
 *
 * So far one operation does: TNL_PUSH_CSUM, of a packet that is still to be segmented.  Each segment has an outer
 * checksum of its own.  Which kernel code computes it, the skb says (SKB_GSO_UDP_TUNNEL_CSUM), and only a tunnel device
 * sets that.
 *
 * A seam provides
 *
 *     dp_needs_detour()        whether it does of this packet */
#ifndef DP_DETOUR_H
#define DP_DETOUR_H 1

#include "dp/reason.h"
#include "dp/table.h"

/* Returned instead of a reason: the operation is to be done after the detour. */
#define DP_DETOUR (DP_N_REASONS + 1)

#endif /* dp/detour.h */
