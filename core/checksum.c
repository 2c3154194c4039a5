/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checksum.h"

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "core/transport.h"

static bool complete_sum(const struct oxdp_transport *t, size_t offset, size_t len);
static bool complete_sctp(const struct oxdp_transport *t);

bool oxdp_checksum_complete(void *frame, size_t len)
{
    struct oxdp_transport t;

    if (!oxdp_transport_find(frame, len, &t)) {
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

/* TCP and UDP: RFC 9293 section 3.1, RFC 768, RFC 8200 section 8.1.  The field is 'offset' bytes into the
 * header and covers 'len' bytes.  A UDP checksum of 0 means "none": the pseudo header's sum is never 0, so
 * that one stays. */
static bool complete_sum(const struct oxdp_transport *t, size_t offset, size_t len)
{
    uint16_t *field = (uint16_t *) (t->data + offset);
    uint16_t pseudo = oxdp_transport_pseudo(t, len);
    uint16_t found;

    memcpy(&found, field, sizeof found);
    if (found != pseudo) {
        return false;
    }

    /* The field holds the pseudo header's sum, so adding everything includes it. */
    uint16_t checksum = ~oxdp_sum_fold(oxdp_sum_add(0, t->data, len));

    if (!checksum && t->protocol == IPPROTO_UDP) {
        checksum = 0xffff;
    }
    memcpy(field, &checksum, sizeof checksum);
    return true;
}

/* CRC32c over the packet with the field as 0: RFC 9260 appendix A.  A right checksum of 0 is written
 * again. */
static bool complete_sctp(const struct oxdp_transport *t)
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
