/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "dp-packet.h"
#include "flow.h"
#include "openvswitch/match.h"
#include "ovs/fastpath/compile.h"
#include "tests/parity/oracle.h"

static void extract(const uint8_t *frame, size_t len, struct flow *flow)
{
    struct dp_packet packet;

    dp_packet_use_const(&packet, frame, len);
    pkt_metadata_init(&packet.md, u32_to_odp(PARITY_IN_PORT));
    flow_limit_vlans(2);
    flow_extract(&packet, flow);
}

enum parity parity_match(const uint8_t *frame, size_t len, const uint8_t *other, size_t other_len,
                         const uint8_t *mask_bytes, size_t mask_len)
{
    static const struct dp_capability everything = {
        .table_version = DP_TABLE_VERSION,
        .key_groups = DP_CAPABILITY_ALL_KEYS,
        .ops = DP_CAPABILITY_ALL_OPS,
    };
    struct match match;
    struct flow flow;
    struct dpif_xdp_compiled compiled;
    bool matches;

    extract(frame, len, &match.flow);
    extract(other, other_len, &flow);
    memset(&match.wc, 0, sizeof match.wc);
    memset(&match.tun_md, 0, sizeof match.tun_md);

    /* Bytes of the mask where the flow has something, or the other frame has. */
    uint8_t *mask = (uint8_t *) &match.wc.masks;
    size_t n = 0;

    for (size_t i = 0; i < sizeof match.wc.masks; i++) {
        if (((const uint8_t *) &match.flow)[i] || ((const uint8_t *) &flow)[i]) {
            mask[i] = n < mask_len ? mask_bytes[n++] : 0;
        }
    }
    match.wc.masks.dl_type = OVS_BE16_MAX;
    memset(&match.wc.masks.packet_type, 0xff, sizeof match.wc.masks.packet_type);
    flow_zero_wildcards(&match.flow, &match.wc);
    match.flow.packet_type = htonl(PT_ETH);

    dpif_xdp_compile(&match.flow, &match.wc, NULL, NULL, 0, &everything, &compiled, &matches);
    if (!matches) {
        return PARITY_BEYOND;
    }

    union dp_key key;
    bool ours = true;
    bool theirs = flow_equal_except(&flow, &match.flow, &match.wc);

    dpif_xdp_compile_key(&flow, &key);
    for (int i = 0; i < DP_KEY_WORDS; i++) {
        ours &= (key.w[i] & compiled.mask.w[i]) == compiled.key.w[i];
    }
    if (ours != theirs) {
        fprintf(stderr, "matches: %d, Open vSwitch: %d\n", ours, theirs);
        parity_dump("flow's frame", frame, len);
        parity_dump("other frame", other, other_len);
        parity_dump("mask", mask, sizeof match.wc.masks);
        return PARITY_DIFFERENT;
    }
    return PARITY_EQUAL;
}
