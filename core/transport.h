/* SPDX-License-Identifier: Apache-2.0 */
/* The transport header of a frame, and the Internet checksum. */
#ifndef OXDP_TRANSPORT_H
#define OXDP_TRANSPORT_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the transport header is and what its pseudo header says. */
struct oxdp_transport {
    uint8_t *ip;                /* The IP header; its first four bits are the version. */
    uint8_t *data;
    size_t len;                 /* Bytes, by the IP header's length. */
    uint8_t protocol;
    const void *addresses;      /* Source and destination, side by side. */
    size_t addresses_len;       /* Bytes of both. */
};

/* Looks behind up to two VLAN tags, IPv4 options and IPv6 extension headers.  False: 'frame', an Ethernet frame of
 * 'len' bytes, is a fragment, is truncated, or is no IP packet. */
bool oxdp_transport_find(uint8_t *frame, size_t len, struct oxdp_transport *ret);

/* The sum, not complemented, of the pseudo header of 't' when it covers 'len' bytes (RFC 9293 section 3.1, RFC 8200
 * section 8.1): what a stack leaves in the checksum field for a device. */
uint16_t oxdp_transport_pseudo(const struct oxdp_transport *t, size_t len);

/* Adds 'data', of 'len' bytes, to 'sum'; makes 16 bits of it. */
uint64_t oxdp_sum_add(uint64_t sum, const void *data, size_t len);
uint16_t oxdp_sum_fold(uint64_t sum);

#endif /* core/transport.h */
