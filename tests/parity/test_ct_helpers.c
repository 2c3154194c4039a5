/* SPDX-License-Identifier: Apache-2.0 */
/* The action ct() of ovs/state/ beside lib/conntrack: conversations of FTP and TFTP with NAT, whose helpers rewrite
 * packets and expect connections.  Bytes and metadata are compared after each packet, the connections after each
 * conversation.
 *
 *   test_ct_helpers [CONVERSATIONS [SEED]] */
#include <config.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "conntrack.h"
#include "csum.h"
#include "ct-dpif.h"
#include "dp-packet.h"
#include "flow.h"
#include "odp-netlink.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/ofpbuf.h"
#include "openvswitch/vlog.h"
#include "ovs-rcu.h"
#include "ovs/datapath/datapath.h"
#include "ovs/provider/ct_dpif.h"
#include "ovs/state/ct.h"
#include "packets.h"
#include "sset.h"
#include "tests/parity/oracle.h"
#include "timeval.h"
#include "unaligned.h"
#include "util.h"

#define ZONE 7
#define ROOM 256                /* For what a helper writes. */

static struct dpif_xdp_ct *ours;
static struct conntrack *theirs;
static uint64_t random_state;
static unsigned long n_packets, n_related, n_rewritten;

/* In the place of ovs/datapath/datapath.c. */
struct dpif_xdp_ct *dpif_xdp_ct_of(const struct dpif *dpif OVS_UNUSED) { return ours; }

static uint32_t any(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

/* One end of the control connection, as it sees both. */
struct end {
    const char *own, *other;
    uint16_t own_port, other_port;
    uint32_t seq, ack;
};

struct talk {
    bool v6, tftp, helped;
    enum { NO_NAT, TO_SRC, TO_DST } nat;
    uint16_t port;
    struct end end[2];          /* Client, server. */
    bool failed;
};

static const char *const client_address[2] = { "10.0.0.1", "fc00::1" };
static const char *const server_address[2] = { "10.0.0.2", "fc00::2" };
static const char *const nat_address[2] = { "192.168.200.177", "fc00:1234:5678::aaaa" };

/* A packet from 'from', of which 'sequence' is the number of its first byte. */
static struct dp_packet *make_packet(const struct talk *t, const struct end *from, uint16_t flags, const char *text)
{
    struct dp_packet *packet = dp_packet_new(0);
    struct flow flow;

    memset(&flow, 0, sizeof flow);
    flow.dl_type = htons(t->v6 ? ETH_TYPE_IPV6 : ETH_TYPE_IP);
    flow.nw_proto = t->tftp ? IPPROTO_UDP : IPPROTO_TCP;
    flow.nw_ttl = 64;
    flow.tp_src = htons(from->own_port);
    flow.tp_dst = htons(from->other_port);
    flow.tcp_flags = htons(t->tftp ? 0 : flags);
    inet_pton(t->v6 ? AF_INET6 : AF_INET, from->own, t->v6 ? (void *) &flow.ipv6_src : &flow.nw_src);
    inet_pton(t->v6 ? AF_INET6 : AF_INET, from->other, t->v6 ? (void *) &flow.ipv6_dst : &flow.nw_dst);
    flow_compose(packet, &flow, text, strlen(text));
    if (!t->tftp) {
        struct tcp_header *tcp = dp_packet_l4(packet);

        put_16aligned_be32(&tcp->tcp_seq, htonl(from->seq));
        put_16aligned_be32(&tcp->tcp_ack, htonl(flags & TCP_ACK ? from->ack : 0));
        tcp->tcp_winsz = htons(60000);
        tcp->tcp_csum = 0;
        tcp->tcp_csum = t->v6
            ? packet_csum_upperlayer6(dp_packet_l3(packet), tcp, IPPROTO_TCP, dp_packet_l4_size(packet))
            : csum_finish(
                  csum_continue(packet_csum_pseudoheader(dp_packet_l3(packet)), tcp, dp_packet_l4_size(packet)));
    }
    return packet;
}

/* A copy with room behind it. */
static struct dp_packet *copy_of(const struct dp_packet *packet)
{
    struct dp_packet *copy = dp_packet_new(dp_packet_size(packet) + ROOM);

    dp_packet_put(copy, dp_packet_data(packet), dp_packet_size(packet));
    pkt_metadata_init(&copy->md, u32_to_odp(1));
    return copy;
}

static bool same_metadata(const struct pkt_metadata *a, const struct pkt_metadata *b)
{
    return a->ct_state == b->ct_state && a->ct_zone == b->ct_zone && a->ct_mark == b->ct_mark
        && ovs_u128_equals(a->ct_label, b->ct_label) && a->ct_orig_tuple_ipv6 == b->ct_orig_tuple_ipv6
        && !memcmp(&a->ct_orig_tuple, &b->ct_orig_tuple,
                   a->ct_orig_tuple_ipv6 ? offsetof(struct ovs_key_ct_tuple_ipv6, ipv6_proto) + 1
                   : offsetof(struct ovs_key_ct_tuple_ipv4, ipv4_proto) + 1);
}

/* Both trackers execute 'text' on a packet.  Returns it as it left, or NULL if they differ. */
static struct dp_packet *track(struct talk *t, const struct dp_packet *packet, bool commit)
{
    struct dp_packet *a = copy_of(packet), *b = copy_of(packet);
    const uint32_t mark[2] = { 5 + any(3), UINT32_MAX };     /* What a helper expected keeps its parent's. */
    struct nat_action_info_t info = { 0 };
    struct dp_packet_batch batch;
    struct ds text = DS_EMPTY_INITIALIZER;
    struct ofpbuf odp;
    struct flow flow;
    const char *helper = t->helped && commit ? t->tftp ? "tftp" : "ftp" : NULL;

    ds_put_format(&text, "ct(%szone=%d", commit ? "commit," : "", ZONE);
    if (commit) {
        ds_put_format(&text, ",mark=%"PRIu32"/0xffffffff", mark[0]);
    }
    if (helper) {
        ds_put_format(&text, ",helper=%s", helper);
    }
    if (t->nat != NO_NAT) {
        ds_put_cstr(&text, ",nat");
        if (commit) {
            ds_put_format(&text, "(%s=%s)", t->nat == TO_SRC ? "src" : "dst", nat_address[t->v6]);
            info.nat_action = t->nat == TO_SRC ? NAT_ACTION_SRC : NAT_ACTION_DST;
            inet_pton(t->v6 ? AF_INET6 : AF_INET, nat_address[t->v6], &info.min_addr);
            info.max_addr = info.min_addr;
        }
    }
    ds_put_char(&text, ')');
    ofpbuf_init(&odp, 0);
    if (odp_actions_from_string(ds_cstr(&text), NULL, &odp)) {
        abort();
    }
    flow_extract(a, &flow);
    flow_extract(b, &flow);
    dp_packet_batch_init_packet(&batch, a);
    dpif_xdp_ct_execute(ours, &batch, odp.data, &flow, time_msec());
    dp_packet_batch_init_packet(&batch, b);
    conntrack_execute(theirs, &batch, flow.dl_type, false, commit, ZONE, commit ? mark : NULL, NULL, flow.tp_src,
                      flow.tp_dst, helper, t->nat != NO_NAT ? &info : NULL, time_msec(), 0);
    if (t->nat == NO_NAT && any(3) == 0) {
        /* Once more in the same zone: only a control packet is judged again. */
        dp_packet_batch_init_packet(&batch, a);
        ofpbuf_clear(&odp);
        if (odp_actions_from_string("ct(zone=" OVS_STRINGIZE(ZONE) ")", NULL, &odp)) {
            abort();
        }
        dpif_xdp_ct_execute(ours, &batch, odp.data, &flow, time_msec());
        dp_packet_batch_init_packet(&batch, b);
        conntrack_execute(theirs, &batch, flow.dl_type, false, false, ZONE, NULL, NULL, flow.tp_src, flow.tp_dst, NULL,
                          NULL, time_msec(), 0);
    }
    n_packets++;
    n_related += a->md.ct_state & CS_RELATED ? 1 : 0;
    n_rewritten += dp_packet_size(a) != dp_packet_size(packet);
    if (!same_metadata(&a->md, &b->md) || dp_packet_size(a) != dp_packet_size(b)
        || memcmp(dp_packet_data(a), dp_packet_data(b), dp_packet_size(a))) {
        fprintf(stderr, "%s: ct_state %#x, mark %#x; Open vSwitch: %#x, %#x\n", ds_cstr(&text), a->md.ct_state,
                a->md.ct_mark, b->md.ct_state, b->md.ct_mark);
        parity_dump("the packet", dp_packet_data(packet), dp_packet_size(packet));
        parity_dump("ours", dp_packet_data(a), dp_packet_size(a));
        parity_dump("Open vSwitch's", dp_packet_data(b), dp_packet_size(b));
        dp_packet_delete(a);
        a = NULL;
        t->failed = true;
    }
    ofpbuf_uninit(&odp);
    ds_destroy(&text);
    dp_packet_delete(b);
    return a;
}

/* 'side' sends a segment; its peer takes it as it arrives, unless it is +inv. */
static void say(struct talk *t, int side, uint16_t flags, const char *text)
{
    struct end *from = &t->end[side], *to = &t->end[!side];
    struct dp_packet *packet = make_packet(t, from, flags, text), *left;

    left = track(t, packet, side == 0);
    from->seq += strlen(text) + (flags & (TCP_SYN | TCP_FIN) ? 1 : 0);
    if (left && !t->tftp && !(left->md.ct_state & CS_INVALID)) {
        const struct tcp_header *tcp = dp_packet_l4(left);

        to->ack = ntohl(get_16aligned_be32(&tcp->tcp_seq)) + (flags & (TCP_SYN | TCP_FIN) ? 1 : 0)
            + (dp_packet_l4_size(left) - TCP_OFFSET(tcp->tcp_ctl) * 4);
    }
    dp_packet_delete(left);
    dp_packet_delete(packet);
}

static const char *some_address(const struct talk *t, int side)
{
    const char *const all[] = {
        t->end[side].own, t->end[side].own, t->end[side].own, t->end[!side].other,
        "10.9.9.9",       "1.2.3",          "fc00::9",        "10.0.0.1234",
    };

    return all[any(ARRAY_SIZE(all))];
}

/* A message, most of them right. */
static char *some_message(const struct talk *t, int side, uint16_t port)
{
    struct ds s = DS_EMPTY_INITIALIZER;
    const char *with_dots = some_address(t, side);
    char *address = xstrdup(with_dots);

    for (char *c = address; !t->v6 && *c; c++) {
        *c = *c == '.' ? ',' : *c;
    }
    switch (any(8)) {
    case 0:
        ds_put_format(&s, "%s and more", side ? "220 ready" : "USER me");
        break;
    case 1:
        ds_put_format(&s, "PORT %s,%d", address, port);
        break;
    case 2:
        ds_put_format(&s, "EPRT |%d|%s|%d|", any(3), address, port);
        break;
    default:
        if (t->v6 && side) {
            ds_put_format(&s, "229 Entering %s Passive Mode (|||%u|)", any(2) ? "Extended" : "EXTENDED",
                          any(6) ? port : 70000);
        } else if (t->v6) {
            ds_put_format(&s, "%s |2|%s|%u|", any(2) ? "EPRT" : "eprt", address, any(6) ? port : 70000);
        } else if (any(3) == 0) {
            if (side) {
                ds_put_cstr(&s, "229 Entering Extended Passive Mode (||");
            } else {
                ds_put_format(&s, "EPRT |1|%s", with_dots);
            }
            ds_put_format(&s, "|%u|", any(6) ? port : 70000);
        } else if (side) {
            ds_put_format(&s, "227 Entering Passive Mode %s%s,%u,%u%s", any(2) ? "(" : "=", address,
                          any(9) ? port >> 8 : 256, port & 0xff, any(2) ? ")" : "");
        } else {
            ds_put_format(&s, "%s %s,%u,%u", any(2) ? "PORT" : "Port", address, port >> 8, any(9) ? port & 0xff : 300);
        }
    }
    if (any(8) == 0) {
        ds_truncate(&s, any(s.length + 1));
    }
    ds_put_cstr(&s, any(6) ? "\r\n" : "");
    free(address);
    return ds_steal_cstr(&s);
}

/* A connection to 'port' of 'side', as its peer would make it, and an answer. */
static void connect_data(struct talk *t, int side, uint16_t port)
{
    struct end to = {
        .own = t->end[side].own,
        .other = t->end[side].other,
        .own_port = port,
        .other_port = 30000 + any(4),
        .seq = 1,
        .ack = 1001,
    };
    struct end from = {
        .own = t->end[!side].own,
        .other = t->end[!side].other,
        .own_port = to.other_port,
        .other_port = port,
        .seq = 1000,
    };
    bool commits = any(4);

    for (int i = 0; i < 3 && !t->failed; i++) {
        struct dp_packet *packet = make_packet(t, i == 1 ? &to : &from,
                                               i == 0       ? TCP_SYN
                                                   : i == 1 ? TCP_SYN | TCP_ACK
                                                            : TCP_ACK,
                                               "");

        dp_packet_delete(track(t, packet, i == 0 && commits));
        dp_packet_delete(packet);
        from.seq = 1001;
        from.ack = 2;
    }
}

static void add_entry(struct sset *all, const struct ct_dpif_entry *entry_)
{
    struct ct_dpif_entry entry = *entry_;
    struct ds s = DS_EMPTY_INITIALIZER;

    ct_dpif_format_entry(&entry, &s, false, false);
    ds_put_format(&s, " parent:");
    ct_dpif_format_tuple(&s, &entry.tuple_parent);
    sset_add(all, ds_cstr(&s));
    ds_destroy(&s);
}

static bool same_connections(void)
{
    struct sset a = SSET_INITIALIZER(&a), b = SSET_INITIALIZER(&b);
    struct ct_dpif_dump_state *state;
    struct conntrack_dump dump;
    struct ct_dpif_entry entry;
    const char *name;
    bool same;
    int n;

    dpif_xdp_ct_dump_start(NULL, &state, NULL, &n);
    while (!dpif_xdp_ct_dump_next(NULL, state, &entry)) {
        add_entry(&a, &entry);
        ct_dpif_entry_uninit(&entry);
    }
    dpif_xdp_ct_dump_done(NULL, state);
    conntrack_dump_start(theirs, &dump, NULL, &n);
    while (!conntrack_dump_next(&dump, &entry)) {
        add_entry(&b, &entry);
        ct_dpif_entry_uninit(&entry);
    }
    conntrack_dump_done(&dump);
    same = sset_equals(&a, &b);
    if (!same) {
        SSET_FOR_EACH (name, &a) {
            fprintf(stderr, "ours: %s\n", name);
        }
        SSET_FOR_EACH (name, &b) {
            fprintf(stderr, "Open vSwitch's: %s\n", name);
        }
    }
    sset_destroy(&a);
    sset_destroy(&b);
    return same;
}

static bool converse(uint64_t seed)
{
    struct talk t = { .v6 = 0 };

    random_state = seed * 0x9e3779b97f4a7c15ull | 1;
    any(1);
    t.v6 = any(2);
    t.tftp = any(6) == 0;
    t.helped = any(5);
    t.nat = any(3);
    t.port = any(4) ? (t.tftp ? 69 : 21) : 2121;
    t.end[0] = (struct end) {
        .own = client_address[t.v6],
        .other = server_address[t.v6],
        .own_port = 1000,
        .other_port = t.port,
        .seq = any(1u << 31),
    };
    t.end[1] = (struct end) {
        .own = t.nat == TO_DST ? nat_address[t.v6] : server_address[t.v6],
        .other = t.nat == TO_SRC ? nat_address[t.v6] : client_address[t.v6],
        .own_port = t.port, .other_port = 1000, .seq = any(1u << 31),
    };
    conntrack_flush(theirs, NULL);
    dpif_xdp_ct_flush(NULL, NULL, NULL);
    say(&t, 0, TCP_SYN, t.tftp ? "read" : "");
    if (!t.failed && !t.tftp) {
        say(&t, 1, TCP_SYN | TCP_ACK, "");
    }
    for (uint32_t i = any(12); i > 0 && !t.failed; i--) {
        uint16_t port = 20000 + any(3);
        int side = any(2);
        char *text = some_message(&t, side, port);

        if (any(4) == 0) {
            t.end[side].ack = t.end[!side].seq; /* What was never sent, where a helper has moved it. */
        }
        say(&t, side, TCP_ACK | TCP_PSH, text);
        if (!t.failed && any(3) == 0) {
            connect_data(&t, any(5) ? side : !side, t.tftp ? 1000 : port);
        }
        free(text);
    }
    ovsrcu_quiesce();
    return !t.failed && same_connections();
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    unsigned long long seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_OFF);
    flow_limit_vlans(2);
    ours = dpif_xdp_ct_create("test");
    dpif_xdp_ct_set_max(ours, 16384);     /* What was flushed is free a moment later. */
    theirs = conntrack_init();
    for (unsigned long i = 0; i < rounds; i++) {
        if (!converse(seed + i)) {
            printf("conversation %lu: test_ct_helpers 1 %llu\n", i, seed + i);
            return 1;
        }
    }
    printf("%lu packets equal, %lu related, %lu rewritten to another length\n", n_packets, n_related, n_rewritten);
    dpif_xdp_ct_stop(ours);
    dpif_xdp_ct_destroy(ours);
    conntrack_destroy(theirs);
    return n_related < rounds / 20 || n_rewritten < rounds / 20;
}
