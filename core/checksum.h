/* SPDX-License-Identifier: Apache-2.0 */
/* Completes the checksum of a CHECKSUM_PARTIAL packet. */
#ifndef OXDP_CHECKSUM_H
#define OXDP_CHECKSUM_H 1

#include <stdbool.h>
#include <stddef.h>

/* 'frame' is an Ethernet frame of 'len' bytes.  If its TCP or UDP checksum field holds just the pseudo
 * header's sum (what Linux writes for a device that checksums; include/linux/skbuff.h,
 * "Checksumming on output"), or its SCTP checksum is zero, writes the full checksum.  A valid checksum
 * that happens to look the same is recomputed to itself.  Looks behind up to two VLAN tags, IPv4 options
 * and IPv6 extension headers; leaves fragments, truncated and other packets alone.  Returns true if it
 * wrote. */
bool oxdp_checksum_complete(void *frame, size_t len);

#endif /* core/checksum.h */
