/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tables/mask_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "dp/frame.h"

/* Packets that have the field. */
enum kind {
    ANY,
    IP4,
    IP6,
    ARP,
    ND,
    IGMP,
    MPLS,
};

enum style {
    NUMBER,                     /* Host byte order. */
    BYTES,                      /* As in the packet. */
    ADDRESS,                    /* As in the packet, usually a prefix. */
};

struct field {
    const char *name;
    enum kind kind;
    enum style style;
    struct { uint16_t offset, len; } part[2];
    uint8_t unused;             /* Bits of the first byte that are always 0. */
};

#define PART(FIELD) { offsetof(union dp_key, FIELD), sizeof(((union dp_key *) 0)->FIELD) }
#define FIELD(NAME, KIND, STYLE) { #NAME, KIND, STYLE, { PART(NAME) } }

static const struct field fields[] = {
    FIELD(in_port, ANY, NUMBER),
    FIELD(recirc_id, ANY, NUMBER),
    FIELD(eth_type, ANY, BYTES),
    { "vlan_tpid", ANY, BYTES, { PART(vlan.tpid) } },
    { "vlan_tci", ANY, BYTES, { PART(vlan.tci) } },
    { "vlan2_tpid", ANY, BYTES, { PART(vlan2.tpid) } },
    { "vlan2_tci", ANY, BYTES, { PART(vlan2.tci) } },
    FIELD(eth_src, ANY, BYTES),
    FIELD(eth_dst, ANY, BYTES),
    FIELD(ip_proto, IP4, NUMBER),
    FIELD(ip_proto, IP6, NUMBER),
    { "arp_op", ARP, NUMBER, { PART(ip_proto) } },
    { "ip_frag", ANY, NUMBER, { PART(ip_frag) }, (uint8_t) ~(DP_FRAG_ANY | DP_FRAG_LATER) },
    FIELD(ip4_src, IP4, ADDRESS),
    FIELD(ip4_dst, IP4, ADDRESS),
    { "arp_spa", ARP, ADDRESS, { PART(ip4_src) } },
    { "arp_tpa", ARP, ADDRESS, { PART(ip4_dst) } },
    { "ip6_src", IP6, ADDRESS, { PART(ip6_src_hi), PART(ip6_src_lo) } },
    FIELD(ip6_dst, IP6, ADDRESS),
    { "mpls_lse0", MPLS, BYTES, { PART(mpls01[0]) } },
    { "mpls_lse1", MPLS, BYTES, { PART(mpls01[1]) } },
    { "mpls_lse2", MPLS, BYTES, { PART(mpls2) } },
    FIELD(ip_tos, ANY, NUMBER),
    FIELD(ip_ttl, ANY, NUMBER),
    FIELD(tp_src, ANY, BYTES),
    FIELD(tp_dst, ANY, BYTES),
    { "nd_options_type", ND, BYTES, { PART(tcp_flags) } },
    FIELD(tcp_flags, ANY, BYTES),
    FIELD(igmp_group, IGMP, ADDRESS),
    { "arp_sha", ARP, BYTES, { { offsetof(union dp_key, arp_hw0), 6 } } },
    { "arp_tha", ARP, BYTES, { { offsetof(union dp_key, arp_hw0) + 6, 2 }, PART(arp_hw1) } },
    FIELD(ip6_label, IP6, BYTES),
    FIELD(nd_reserved, ND, BYTES),
    FIELD(nd_target, ND, ADDRESS),
    FIELD(nd_sll, ND, BYTES),
    FIELD(nd_tll, ND, BYTES),
    FIELD(dp_hash, ANY, NUMBER),
    FIELD(skb_priority, ANY, NUMBER),
    FIELD(skb_mark, ANY, NUMBER),
    FIELD(ct_state, ANY, NUMBER),
    FIELD(ct_zone, ANY, NUMBER),
    FIELD(ct_mark, ANY, NUMBER),
    FIELD(ct_label, ANY, BYTES),
    FIELD(ct_proto, ANY, NUMBER),
    FIELD(ct_tp_src, ANY, BYTES),
    FIELD(ct_tp_dst, ANY, BYTES),
    FIELD(ct_ip6_src, IP6, ADDRESS),
    FIELD(ct_ip6_dst, IP6, ADDRESS),
    FIELD(ct_ip4_src, ANY, ADDRESS),
    FIELD(ct_ip4_dst, ANY, ADDRESS),
    FIELD(tun_id, ANY, BYTES),
    FIELD(tun_flags, ANY, NUMBER),
    FIELD(tun_options_len, ANY, NUMBER),
    FIELD(tun_tos, ANY, NUMBER),
    FIELD(tun_ttl, ANY, NUMBER),
    FIELD(tun_tp_src, ANY, BYTES),
    FIELD(tun_tp_dst, ANY, BYTES),
    FIELD(tun_ip4_src, ANY, ADDRESS),
    FIELD(tun_ip4_dst, ANY, ADDRESS),
    FIELD(tun_ip6_src, ANY, ADDRESS),
    FIELD(tun_ip6_dst, ANY, ADDRESS),
    FIELD(tun_options, ANY, BYTES),
};

static bool has_kind(const union dp_key *flow, enum kind kind);
static void print_bits(FILE *, const struct field *, const uint8_t *bits, size_t len);

char *oxdp_mask_to_text(const union dp_key *mask, const union dp_key *flow)
{
    union dp_key rest = *mask;
    const char *separator = "";
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out) {
        return NULL;
    }
    for (const struct field *f = fields; f < fields + DP_ARRAY_SIZE(fields); f++) {
        uint8_t bits[64], zero[64] = { 0 };
        size_t len = 0;

        for (int i = 0; has_kind(flow, f->kind) && i < 2; i++) {
            uint8_t *part = (uint8_t *) &rest + f->part[i].offset;

            memcpy(bits + len, part, f->part[i].len);
            memset(part, 0, f->part[i].len);
            len += f->part[i].len;
        }
        if (memcmp(bits, zero, len)) {
            bits[0] |= f->unused;
            fprintf(out, "%s%s", separator, f->name);
            print_bits(out, f, bits, len);
            separator = ", ";
        }
    }

    /* Of flows unlike the example. */
    for (int i = 0; i < DP_KEY_WORDS; i++) {
        if (rest.w[i]) {
            fprintf(out, "%sword %d/0x%llx", separator, i, rest.w[i]);
            separator = ", ";
        }
    }
    fclose(out);
    return text;
}

static bool has_kind(const union dp_key *flow, enum kind kind)
{
    uint16_t type = dp_ntohs(flow->eth_type);

    switch (kind) {
    case ANY:
        return true;
    case IP4:
        return type == DP_ETH_IP4;
    case IP6:
        return type == DP_ETH_IP6;
    case ARP:
        return type == DP_ETH_ARP || type == DP_ETH_RARP;
    case ND:
        return type == DP_ETH_IP6 && flow->ip_proto == DP_IP_ICMP6;
    case IGMP:
        return type == DP_ETH_IP4 && flow->ip_proto == DP_IP_IGMP;
    case MPLS:
        return type == DP_ETH_MPLS || type == DP_ETH_MPLS_MC;
    }
    return false;
}

/* The number of leading ones if nothing but zeros follows, else -1. */
static int prefix_len(const uint8_t *bits, size_t len)
{
    int n = 0;

    while (n < 8 * len && bits[n / 8] & 0x80 >> n % 8) {
        n++;
    }
    for (int i = n; i < 8 * len; i++) {
        if (bits[i / 8] & 0x80 >> i % 8) {
            return -1;
        }
    }
    return n;
}

static void print_bits(FILE *out, const struct field *f, const uint8_t *bits, size_t len)
{
    int prefix = prefix_len(bits, len);

    if (prefix == 8 * len) {
        return;
    }
    if (f->style == ADDRESS && prefix >= 0) {
        fprintf(out, "/%d", prefix);
        return;
    }
    fprintf(out, "/0x");
    for (size_t i = 0; i < len; i++) {
        fprintf(out, "%02x", bits[f->style == NUMBER ? len - 1 - i : i]);
    }
}
