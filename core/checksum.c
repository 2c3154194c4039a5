/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checksum.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

/* Where the transport header is and what its pseudo header says. */
struct transport {
    uint8_t *data;
    size_t len;                 /* Bytes, by the IP header's length. */
    uint8_t protocol;
    const void *addresses;      /* Source and destination, side by side. */
    size_t addresses_len;       /* Bytes of both. */
};

static bool find_transport(uint8_t *frame, size_t len, struct transport *ret);
static bool find_in_ipv4(uint8_t *ip, size_t len, struct transport *ret);
static bool find_in_ipv6(uint8_t *ip, size_t len, struct transport *ret);
static bool complete_sum(const struct transport *t, size_t offset, size_t len);
static bool complete_sctp(const struct transport *t);
static uint64_t add(uint64_t sum, const void *data, size_t len);
static uint16_t fold(uint64_t sum);

bool oxdp_checksum_complete(void *frame, size_t len)
{
    struct transport t;

    if (!find_transport(frame, len, &t)) {
        return false;
    }
    switch (t.protocol) {
    case IPPROTO_TCP:
        return t.len >= 20 && complete_sum(&t, 16, t.len);
    case IPPROTO_UDP: {
        size_t udp_len = t.len >= 8 ? t.data[4] << 8 | t.data[5] : 0;

        return udp_len >= 8 && udp_len <= t.len && complete_sum(&t, 6, udp_len);
    }
    case IPPROTO_SCTP:
        return t.len >= 12 && complete_sctp(&t);
    default:
        return false;
    }
}

static uint16_t read16(const uint8_t *p)
{
    return p[0] << 8 | p[1];
}

static bool find_transport(uint8_t *frame, size_t len, struct transport *ret)
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

static bool find_in_ipv4(uint8_t *ip, size_t len, struct transport *ret)
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
    *ret = (struct transport) {
        .data = ip + header,
        .len = total - header,
        .protocol = ip[9],
        .addresses = ip + 12,
        .addresses_len = 8,
    };
    return true;
}

static bool find_in_ipv6(uint8_t *ip, size_t len, struct transport *ret)
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
    *ret = (struct transport) {
        .data = ip + at,
        .len = end - at,
        .protocol = next,
        .addresses = ip + 8,
        .addresses_len = 32,
    };
    return true;
}

/* TCP and UDP: RFC 9293 section 3.1, RFC 768, RFC 8200 section 8.1.  The field is 'offset' bytes into the
 * header and covers 'len' bytes.  A UDP checksum of 0 means "none": the pseudo header's sum is never 0, so
 * that one stays. */
static bool complete_sum(const struct transport *t, size_t offset, size_t len)
{
    uint16_t *field = (uint16_t *) (t->data + offset);
    uint64_t sum = add(htons(t->protocol) + (uint64_t) htonl(len), t->addresses, t->addresses_len);
    uint16_t pseudo = fold(sum);
    uint16_t found;

    memcpy(&found, field, sizeof found);
    if (found != pseudo) {
        return false;
    }

    /* The field holds the pseudo header's sum, so adding everything includes it. */
    uint16_t checksum = ~fold(add(0, t->data, len));

    if (!checksum && t->protocol == IPPROTO_UDP) {
        checksum = 0xffff;
    }
    memcpy(field, &checksum, sizeof checksum);
    return true;
}

/* CRC32c over the packet with the field as 0: RFC 9260 appendix A.  A right checksum of 0 is written
 * again. */
static bool complete_sctp(const struct transport *t)
{
    /* By the low 4 bits: reflected polynomial 0x82f63b78. */
    static const uint32_t crc32c[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    static const uint8_t unset[4];
    uint32_t crc = 0xffffffff;

    if (memcmp(t->data + 8, unset, sizeof unset)) {
        return false;
    }
    for (size_t i = 0; i < t->len; i++) {
        crc = crc >> 4 ^ crc32c[(crc ^ t->data[i]) & 0xf];
        crc = crc >> 4 ^ crc32c[(crc ^ t->data[i] >> 4) & 0xf];
    }
    crc = ~crc;

    uint8_t bytes[4] = { crc, crc >> 8, crc >> 16, crc >> 24 };

    memcpy(t->data + 8, bytes, sizeof bytes);
    return true;
}

/* Adds 'data' in 32-bit words; 64 bits hold the carries of 2^32 words (RFC 1071 section 2: any word size
 * will do, and byte order does not matter as long as it is the same). */
static uint64_t add(uint64_t sum, const void *data, size_t len)
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

static uint16_t fold(uint64_t sum)
{
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}
