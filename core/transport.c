/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transport.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

static bool find_in_ipv4(uint8_t *ip, size_t len, struct oxdp_transport *ret);
static bool find_in_ipv6(uint8_t *ip, size_t len, struct oxdp_transport *ret);

static uint16_t read16(const uint8_t *p)
{
    return p[0] << 8 | p[1];
}

bool oxdp_transport_find(uint8_t *frame, size_t len, struct oxdp_transport *ret)
{
    size_t at = 2 * ETH_ALEN;

    for (int tags = 0; at + 2 <= len; tags++, at += 4) {
        uint16_t type = read16(frame + at);

        switch (type) {
        case ETH_P_IP:
            return find_in_ipv4(frame + at + 2, len - at - 2, ret);
        case ETH_P_IPV6:
            return find_in_ipv6(frame + at + 2, len - at - 2, ret);
        case ETH_P_8021Q:
        case ETH_P_8021AD:
            if (tags < 2) {
                continue;
            }
            return false;
        default:
            return false;
        }
    }
    return false;
}

static bool find_in_ipv4(uint8_t *ip, size_t len, struct oxdp_transport *ret)
{
    if (len < 20 || ip[0] >> 4 != 4) {
        return false;
    }

    size_t header = (ip[0] & 0xf) * 4;
    size_t total = read16(ip + 2);
    bool is_fragment = read16(ip + 6) & 0x3fff;         /* More fragments, or an offset. */

    if (header < 20 || total < header || total > len || is_fragment) {
        return false;
    }
    *ret = (struct oxdp_transport) {
        .ip = ip,
        .data = ip + header,
        .len = total - header,
        .protocol = ip[9],
        .addresses = ip + 12,
        .addresses_len = 8,
    };
    return true;
}

static bool find_in_ipv6(uint8_t *ip, size_t len, struct oxdp_transport *ret)
{
    if (len < 40 || ip[0] >> 4 != 6 || read16(ip + 4) > len - 40) {
        return false;
    }

    size_t end = 40 + read16(ip + 4);
    size_t at = 40;
    uint8_t next = ip[6];

    while (next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS) {
        if (at + 8 > end) {
            return false;
        }
        next = ip[at];
        at += (ip[at + 1] + 1) * 8;
    }
    if (at > end) {
        return false;
    }
    *ret = (struct oxdp_transport) {
        .ip = ip,
        .data = ip + at,
        .len = end - at,
        .protocol = next,
        .addresses = ip + 8,
        .addresses_len = 32,
    };
    return true;
}

uint16_t oxdp_transport_pseudo(const struct oxdp_transport *t, size_t len)
{
    return oxdp_sum_fold(oxdp_sum_add(htons(t->protocol) + (uint64_t) htonl(len), t->addresses, t->addresses_len));
}

/* In 32-bit words: 64 bits hold the carries of 2^32 words (RFC 1071 section 2: any word size will do, and byte order
 * does not matter as long as it is the same). */
uint64_t oxdp_sum_add(uint64_t sum, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t other = 0;

    for (; len >= 8; p += 8, len -= 8) {
        uint32_t words[2];

        memcpy(words, p, 8);
        sum += words[0];
        other += words[1];
    }
    sum += other;
    if (len) {
        uint32_t words[2] = { 0, 0 };

        memcpy(words, p, len);
        sum += (uint64_t) words[0] + words[1];
    }
    return sum;
}

uint16_t oxdp_sum_fold(uint64_t sum)
{
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}
