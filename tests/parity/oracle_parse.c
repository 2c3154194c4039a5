/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dp-packet.h"
#include "dp/seam_native.h"
#include "dp/parse.h"
#include "flow.h"
#include "ovs/fastpath/compile.h"
#include "tests/parity/oracle.h"

static uint16_t expected_has(const struct dp_packet *packet, const struct flow *flow, uint16_t has);

enum parity parity_parse(const uint8_t *frame, size_t len, unsigned int vlan_limit)
{
    struct dp_packet packet;
    struct flow flow;
    union dp_key expected, key;
    struct dp_frame layers = { .local_stack = 0 };
    uint8_t *copy = malloc(len ? len : 1);
    struct dp_ctx ctx = { .start = copy, .data = copy, .end = copy + len };
    enum parity result = PARITY_EQUAL;

    memcpy(copy, frame, len);
    memset(&key, 0, sizeof key);
    key.in_port = PARITY_IN_PORT;
    if (dp_parse(&ctx, &layers, &key, vlan_limit) == DP_PARSE_BEYOND) {
        free(copy);
        return PARITY_BEYOND;
    }

    flow_limit_vlans(vlan_limit);
    dp_packet_use_const(&packet, copy, len);
    pkt_metadata_init(&packet.md, u32_to_odp(PARITY_IN_PORT));
    flow_extract(&packet, &flow);
    dpif_xdp_compile_key(&flow, &expected);

    if (memcmp(&key, &expected, sizeof key)) {
        for (int i = 0; i < DP_KEY_WORDS; i++) {
            if (key.w[i] != expected.w[i]) {
                fprintf(stderr, "key word %d: %016llx, Open vSwitch: %016llx\n", i, key.w[i], expected.w[i]);
            }
        }
        result = PARITY_DIFFERENT;
    }

    uint16_t l4_len = dp_packet_l4_size(&packet);

    if (layers.l2_5 != packet.l2_5_ofs || layers.l3 != packet.l3_ofs || layers.l4 != packet.l4_ofs
        || layers.l4_len != l4_len) {
        fprintf(stderr, "layers %d %d %d, l4 length %d, Open vSwitch: %d %d %d, %d\n", layers.l2_5, layers.l3,
                layers.l4, layers.l4_len, packet.l2_5_ofs, packet.l3_ofs, packet.l4_ofs, l4_len);
        result = PARITY_DIFFERENT;
    }

    uint16_t has = expected_has(&packet, &flow, layers.has);

    if (layers.has != has) {
        fprintf(stderr, "has %#x, expected %#x\n", layers.has, has);
        result = PARITY_DIFFERENT;
    }
    if (result == PARITY_DIFFERENT) {
        parity_dump("frame", frame, len);
    }
    free(copy);
    return result;
}

/* DP_HAS_* as Open vSwitch's own accessors see the packet.  Bits that have no counterpart are taken from 'has'. */
static uint16_t expected_has(const struct dp_packet *packet, const struct flow *flow, uint16_t has)
{
    bool ip = packet->l4_ofs != UINT16_MAX;
    bool first = ip && !(flow->nw_frag & FLOW_NW_FRAG_LATER);
    uint8_t proto = flow->nw_proto;
    uint16_t same = has & (DP_HAS_ARP | DP_HAS_IP6 | DP_HAS_L3 | DP_HAS_ND | DP_HAS_ND_OPT);

    if (ip && flow->dl_type == htons(ETH_TYPE_IP)) {
        same |= DP_HAS_IP4;
    }
    if (first) {
        same |= DP_HAS_FIRST;
    }
    if (ip && dp_packet_l4_size(packet) <= DP_SHORT_LEN) {
        same |= DP_HAS_SHORT;
    }
    if (first && proto == IPPROTO_TCP && dp_packet_get_tcp_payload(packet)) {
        same |= DP_HAS_TCP;
    }
    if (first && proto == IPPROTO_UDP && dp_packet_get_udp_payload(packet)) {
        same |= DP_HAS_UDP;
    }
    if (first && proto == IPPROTO_SCTP && dp_packet_get_sctp_payload(packet)) {
        same |= DP_HAS_SCTP;
    }
    if (first && (proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6) && dp_packet_get_icmp_payload(packet)) {
        same |= DP_HAS_ICMP;
    }
    if (packet->l2_5_ofs != UINT16_MAX && packet->l3_ofs > packet->l2_5_ofs) {
        same |= DP_HAS_MPLS;
    }
    if (flow->vlans[0].tci) {
        same |= DP_HAS_VLAN;
    }
    return same;
}

void parity_dump(const char *what, const uint8_t *frame, size_t len)
{
    fprintf(stderr, "%s (%zu bytes):", what, len);
    for (size_t i = 0; i < len; i++) {
        fprintf(stderr, "%s%02x", i % 16 ? " " : "\n   ", frame[i]);
    }
    fprintf(stderr, "\n");
}
