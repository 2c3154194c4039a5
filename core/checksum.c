/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checksum.h"

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "core/transport.h"
#include "dp/crc32c.h"

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

/* A right checksum of 0 is written again. */
static bool complete_sctp(const struct oxdp_transport *t)
{
    if (dp_load32(t->data + 8)) {
        return false;
    }
    dp_store32(t->data + 8, dp_le32(dp_crc32c_sctp(t->data, t->len)));
    return true;
}
