/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations for the oracle of connection tracking: a few connections, whose ends behave most of the time, through
 * one to three zones, with NAT, marks, limits, time that passes, and damage.  All choices come of a fuzzer's bytes or
 * of a random number. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "conntrack.h"
#include "csum.h"
#include "dp/seam_native.h"
#include "dp/ct_packet.h"
#include "packets.h"
#include "tests/parity/oracle_ct.h"
#include "util.h"

#define MAX_TALKS 4
#define MAX_ZONES 3
#define MAX_FRAME 2048

/* One end of a TCP connection. */
struct end {
    uint32_t seq, acked;        /* Next to send; highest seen of the other. */
    uint16_t window;
    uint8_t wscale;             /* 255: no option. */
    bool sent;
};

/* A connection, as its ends know it. */
struct talk {
    uint8_t v6, proto;
    uint8_t addr[2][2][16];     /* As [end]'s packets leave it: source and destination. */
    uint16_t port[2][2];
    uint16_t id;
    uint8_t request;            /* Of ICMP. */
    struct end end[2];
    uint8_t last[2][MAX_FRAME]; /* What each end sent last, as it arrived. */
    size_t last_len[2];
    int n_steps;
    struct ct_step steps[MAX_ZONES];
};

struct making {
    struct ct_choices *choices;
    bool v6;
    int n_talks;
    struct talk talks[MAX_TALKS];
};

static uint32_t choose(struct making *m, uint32_t n)
{
    struct ct_choices *c = m->choices;

    if (c->data) {
        if (!c->left) {
            return 0;
        }
        c->left--;

        uint32_t v = *c->data++;

        if (n > 256 && c->left) {
            c->left--;
            v = v << 8 | *c->data++;
        }
        return v % n;
    }
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (c->random >> 20) % n;
}

static bool chance(struct making *m, uint32_t of) { return choose(m, of) == of - 1; }

static void address(const struct making *m, int host, uint8_t addr[16])
{
    memset(addr, 0, 16);
    if (m->v6) {
        addr[0] = 0xfd;
        addr[7] = host >> 4;
        addr[15] = host;
    } else {
        addr[0] = 10;
        addr[2] = host >> 4;
        addr[3] = host;
    }
}

static void make_nat(struct making *m, struct ct_step *step)
{
    uint32_t kind = choose(m, 5);
    int first = 0x40 + 16 * choose(m, 2);

    step->nat = true;
    if (!kind) {
        return;
    }
    step->nat_action = kind & 1 ? NAT_ACTION_SRC : NAT_ACTION_DST;
    if (choose(m, 4)) {
        address(m, first, step->min_addr);
        address(m, first + (kind < 3 ? 0 : choose(m, 4)), step->max_addr);
    }
    if (chance(m, 3)) {
        step->nat_action |= kind & 1 ? NAT_ACTION_SRC_PORT : NAT_ACTION_DST_PORT;
        step->min_port = 5000 + choose(m, 3);
        step->max_port = step->min_port + (kind < 3 ? 0 : choose(m, 300));
    }
}

static void make_step(struct making *m, struct ct_step *step, uint16_t zone)
{
    memset(step, 0, sizeof *step);
    step->zone = zone;
    step->commit = choose(m, 4);
    if (chance(m, 2)) {
        make_nat(m, step);
        step->commit |= step->nat_action;
    }
    if (chance(m, 3)) {
        step->set_mark = true;
        step->mark[1] = chance(m, 2) ? UINT32_MAX : 0xff00;
        step->mark[0] = (choose(m, 3) * 0x1111) & step->mark[1];
    }
    if (chance(m, 4)) {
        step->set_label = true;
        memset(step->label[1], 0xff, chance(m, 2) ? 16 : 4);
        for (int i = 0; i < 16; i++) {
            step->label[0][i] = step->label[1][i] & choose(m, 2);
        }
    }
    step->policy = choose(m, 3);
}

static void make_talk(struct making *m, struct talk *t)
{
    static const uint8_t protos[] = { IPPROTO_TCP, IPPROTO_TCP, IPPROTO_TCP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDP,
                                      IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_SCTP, IPPROTO_GRE };
    static const uint16_t clients[] = { 300, 700, 550, 1024, 40000, 65535 }, servers[] = { 53, 80, 443, 5000, 21, 69 };
    static const uint8_t requests[] = { 8, 8, 13, 15 };
    static const uint32_t sequences[] = { 0, 1000, 0x7ffffff0, 0xfffffff0, 0x80000000, 0xffff0000 };
    static const uint8_t wscales[] = { 255, 0, 7, 14, 20, 2 };

    memset(t, 0, sizeof *t);
    t->v6 = m->v6;
    t->proto = protos[choose(m, ARRAY_SIZE(protos))];
    if (t->v6 && t->proto == IPPROTO_ICMP && choose(m, 8)) {
        t->proto = IPPROTO_ICMPV6;
    } else if (!t->v6 && t->proto == IPPROTO_ICMPV6 && choose(m, 8)) {
        t->proto = IPPROTO_ICMP;
    }
    address(m, 1 + choose(m, 2), t->addr[0][0]);
    address(m, 0x21 + choose(m, 2), t->addr[0][1]);
    t->port[0][0] = clients[choose(m, ARRAY_SIZE(clients))];
    t->port[0][1] = servers[choose(m, ARRAY_SIZE(servers))];
    t->id = choose(m, 2) ? 8 : 0x1234;
    t->request = t->proto == IPPROTO_ICMPV6 ? 128 : requests[choose(m, ARRAY_SIZE(requests))];
    memcpy(t->addr[1][0], t->addr[0][1], 16);
    memcpy(t->addr[1][1], t->addr[0][0], 16);
    t->port[1][0] = t->port[0][1];
    t->port[1][1] = t->port[0][0];
    for (int e = 0; e < 2; e++) {
        t->end[e].seq = sequences[choose(m, ARRAY_SIZE(sequences))];
        t->end[e].wscale = wscales[choose(m, ARRAY_SIZE(wscales))];
        t->end[e].window = chance(m, 2) ? 64256 : choose(m, 2000);
    }
    t->n_steps = 1 + choose(m, MAX_ZONES);
    for (int i = 0; i < t->n_steps; i++) {
        make_step(m, &t->steps[i], i && chance(m, 8) ? t->steps[0].zone : i);
    }
}

/* The packet being made. */
struct frame {
    uint8_t data[MAX_FRAME];
    size_t len, l3, l4;
};

static void put(struct frame *f, const void *data, size_t n)
{
    memcpy(f->data + f->len, data, n);
    f->len += n;
}

static void put16(struct frame *f, uint16_t v) { put(f, (uint8_t[]) { v >> 8, v }, 2); }
static void put32(struct frame *f, uint32_t v) { put16(f, v >> 16), put16(f, v); }
static void at16(uint8_t *p, uint16_t v) { p[0] = v >> 8, p[1] = v; }

static void begin_ip(struct frame *f, bool v6, uint8_t proto, const uint8_t src[16], const uint8_t dst[16], int options)
{
    f->l3 = f->len;
    if (v6) {
        put(f, (uint8_t[]) { 0x60, 0, 0, 0, 0, 0, options ? IPPROTO_DSTOPTS : proto, 64 }, 8);
        put(f, src, 16);
        put(f, dst, 16);
        for (int i = 0; i < options; i++) {
            put(f, (uint8_t[]) { i + 1 < options ? IPPROTO_DSTOPTS : proto, 0, 1, 4, 0, 0, 0, 0 }, 8);
        }
    } else {
        put(f, (uint8_t[]) { 0x45 + options, 0, 0, 0, 0, 1, 0, 0, 64, proto, 0, 0 }, 12);
        put(f, src, 4);
        put(f, dst, 4);
        for (int i = 0; i < options; i++) {
            put(f, (uint8_t[]) { 1, 1, 1, 1 }, 4);
        }
    }
    f->l4 = f->len;
}

/* Lengths and checksums.  'l4_sum': offset of the transport's checksum, 0: none. */
static void end_ip(struct frame *f, bool v6, uint8_t proto, size_t l4_sum)
{
    uint8_t *ip = f->data + f->l3;
    uint32_t partial = 0;

    if (v6) {
        at16(ip + 4, f->len - f->l3 - 40);
    } else {
        at16(ip + 2, f->len - f->l3);
        at16(ip + 10, 0);
        put_unaligned_be16((ovs_be16 *) (ip + 10), csum(ip, f->l4 - f->l3));
    }
    if (!l4_sum) {
        return;
    }

    uint8_t *sum = f->data + f->l4 + l4_sum;
    ovs_be16 result;

    at16(sum, 0);
    if (v6 || proto != IPPROTO_ICMP) {
        partial = v6 ? csum_continue(0, ip + 8, 32) : csum_continue(0, ip + 12, 8);
        partial = csum_add16(partial, htons(proto));
        partial = csum_add16(partial, htons(f->len - f->l4));
    }
    result = csum_finish(csum_continue(partial, f->data + f->l4, f->len - f->l4));
    if (proto == IPPROTO_UDP && !result) {
        result = OVS_BE16_MAX;
    }
    memcpy(sum, &result, 2);
}

static void put_payload(struct making *m, struct frame *f, size_t n)
{
    memset(f->data + f->len, 0x55 + choose(m, 4), n);
    f->len += n;
}

static uint8_t plausible_flags(struct making *m, struct talk *t, int e)
{
    bool answered = t->end[!e].sent;
    static const uint8_t often[] = { TCP_ACK, TCP_ACK, TCP_ACK | TCP_PSH, TCP_ACK, TCP_FIN | TCP_ACK,
                                     TCP_RST | TCP_ACK, TCP_RST, TCP_SYN, TCP_SYN | TCP_ACK };

    if (chance(m, 24)) {
        return choose(m, 64);
    }
    if (!t->end[e].sent && choose(m, 16)) {
        return answered ? TCP_SYN | TCP_ACK : TCP_SYN;
    }
    return chance(m, 4) ? often[choose(m, ARRAY_SIZE(often))] : TCP_ACK;
}

static void put_tcp(struct making *m, struct frame *f, struct talk *t, int e)
{
    struct end *end = &t->end[e];
    uint8_t flags = plausible_flags(m, t, e);
    static const uint16_t windows[] = { 0, 1, 100, 8000, 64256, 65535 };
    static const uint32_t far[] = { 1, 100, 1460, 65535, 67035, 70000, 1 << 20, 1 << 30, 0x80000000 };
    static const uint16_t lengths[] = { 0, 1, 10, 536, 1460 };
    uint32_t seq = end->seq, ack = end->acked;
    size_t len = flags & (TCP_SYN | TCP_RST) || !choose(m, 3) ? 0 : lengths[choose(m, ARRAY_SIZE(lengths))];
    size_t options = flags & TCP_SYN ? 8 : chance(m, 8) ? 12 : 0;
    uint16_t window = chance(m, 3) ? windows[choose(m, ARRAY_SIZE(windows))] : end->window;

    if (chance(m, 10)) {
        seq += chance(m, 2) ? far[choose(m, ARRAY_SIZE(far))] : -far[choose(m, ARRAY_SIZE(far))];
    }
    if (chance(m, 10)) {
        ack += chance(m, 2) ? far[choose(m, ARRAY_SIZE(far))] : -far[choose(m, ARRAY_SIZE(far))];
    }
    if (!(flags & TCP_ACK) || chance(m, 40)) {
        ack = 0;
    }
    put16(f, t->port[e][0]);
    put16(f, t->port[e][1]);
    put32(f, seq);
    put32(f, ack);
    put16(f, (5 + options / 4) << 12 | flags);
    put16(f, window);
    put32(f, 0);
    if (options == 8) {
        bool twice = chance(m, 16);

        put(f, (uint8_t[]) { 1, 3, 3, end->wscale, 0, 0, 0, 0 }, 8);
        if (end->wscale == 255) {
            memset(f->data + f->len - 8, 1, 8);
        } else if (twice) {
            memcpy(f->data + f->len - 4, (uint8_t[]) { 1, 3, 3, 5 }, 4);
        }
    } else if (options) {
        for (size_t i = 0; i < options; i++) {
            f->data[f->len++] = choose(m, 6);
        }
    }
    put_payload(m, f, len);

    /* The state of the connection, as its ends see it. */
    if (chance(m, 16)) {
        return;                 /* A retransmission. */
    }
    end->seq = seq + len + !!(flags & TCP_SYN) + !!(flags & TCP_FIN);
    end->sent = true;
    if (choose(m, 8)) {
        t->end[!e].acked = end->seq;
    }
}

/* Changes a packet so that it is damaged, or looks it. */
static void damage(struct making *m, struct frame *f)
{
    uint8_t *ip = f->data + f->l3, *l4 = f->data + f->l4;
    size_t l4_len = f->len - f->l4;

    switch (choose(m, 12)) {
    case 0:
        ip[(ip[0] >> 4) == 6 ? 5 : 10] ^= 1 + choose(m, 255);
        break;
    case 1:
        if (l4_len) {
            l4[choose(m, l4_len)] ^= 1 << choose(m, 8);
        }
        break;
    case 2:                     /* A header without its end. */
        f->len = f->l4 + (l4_len ? choose(m, l4_len) : 0);
        break;
    case 3:                     /* Padding. */
        memset(f->data + f->len, choose(m, 2), 24);
        f->len += 24;
        break;
    case 4:
        at16(l4 + 2 * choose(m, 2), 0);
        end_ip(f, ip[0] >> 4 == 6, ip[ip[0] >> 4 == 6 ? 6 : 9],
               ip[ip[0] >> 4 == 6 ? 6 : 9] == IPPROTO_TCP ? 16 : ip[ip[0] >> 4 == 6 ? 6 : 9] == IPPROTO_UDP ? 6 : 0);
        break;
    case 5:
        if (ip[0] >> 4 == 4) {
            at16(ip + 6, chance(m, 2) ? 0x2000 : 1 + choose(m, 8000));
            at16(ip + 10, 0);
            put_unaligned_be16((ovs_be16 *) (ip + 10), csum(ip, (ip[0] & 15) * 4));
        }
        break;
    case 6:                     /* Whole, but its headers say otherwise. */
        if (l4_len >= 20) {
            l4[12] = choose(m, 16) << 4;
            end_ip(f, ip[0] >> 4 == 6, ip[ip[0] >> 4 == 6 ? 6 : 9],
                   ip[ip[0] >> 4 == 6 ? 6 : 9] == IPPROTO_TCP ? 16 : 0);
        }
        break;
    case 7:
        if (l4_len >= 8 && ip[ip[0] >> 4 == 6 ? 6 : 9] == IPPROTO_UDP) {
            at16(l4 + 4, choose(m, 2 * l4_len));
            end_ip(f, ip[0] >> 4 == 6, IPPROTO_UDP, chance(m, 2) ? 6 : 0);
        }
        break;
    case 8:
        if (l4_len >= 8 && ip[ip[0] >> 4 == 6 ? 6 : 9] == IPPROTO_UDP) {
            at16(l4 + 6, 0);
        }
        break;
    }
}

/* An error about what its peer sent last: it quotes that. */
static void put_error(struct making *m, struct frame *f, struct talk *t, int e)
{
    static const uint8_t types[2][7] = { { 3, 11, 12, 4, 5, 3, 3 }, { 1, 2, 3, 4, 2, 1, 1 } };
    static const size_t quotes[] = { 8, 20, 18, 64, 4, 1000 };
    size_t ip_len = t->v6 ? 40 : 20;
    size_t n = ip_len + quotes[choose(m, ARRAY_SIZE(quotes))];
    uint8_t proto = t->v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
    const uint8_t *quoted = t->last[!e] + 14;

    if (n > t->last_len[!e] - 14) {
        n = t->last_len[!e] - 14;
    }
    n -= n % 2;
    begin_ip(f, t->v6, proto, t->addr[e][0], t->addr[e][1], 0);
    put(f, (uint8_t[]) { types[t->v6][choose(m, 7)], choose(m, 2), 0, 0 }, 4);
    put32(f, choose(m, 2) * 1400);
    put(f, quoted, n);
    if (chance(m, 16) && n) {
        f->data[f->l4 + 8 + choose(m, n)] ^= 1 << choose(m, 8);
    }
    end_ip(f, t->v6, proto, 2);
}

/* A packet of end 'e'. */
static void make_packet(struct making *m, struct talk *t, int e, struct frame *f)
{
    int options = chance(m, 24) ? 1 + choose(m, 3) : 0;

    memset(f, 0, sizeof *f);
    put(f, (uint8_t[]) { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 }, 12);
    put16(f, t->v6 ? ETH_TYPE_IPV6 : ETH_TYPE_IP);
    if (t->last_len[!e] > 34 && chance(m, 12)) {
        put_error(m, f, t, e);
    } else if (t->proto == IPPROTO_TCP) {
        begin_ip(f, t->v6, t->proto, t->addr[e][0], t->addr[e][1], options);
        put_tcp(m, f, t, e);
        end_ip(f, t->v6, t->proto, 16);
    } else if (t->proto == IPPROTO_UDP) {
        size_t len = choose(m, 30);

        begin_ip(f, t->v6, t->proto, t->addr[e][0], t->addr[e][1], options);
        put16(f, t->port[e][0]);
        put16(f, t->port[e][1]);
        put16(f, 8 + len);
        put16(f, 0);
        put_payload(m, f, len);
        end_ip(f, t->v6, t->proto, t->v6 || choose(m, 4) ? 6 : 0);
    } else if (t->proto == (t->v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)) {
        int answer = dp_ct_icmp_answer(t->v6, t->request);

        begin_ip(f, t->v6, t->proto, t->addr[e][0], t->addr[e][1], options);
        put(f, (uint8_t[]) { e ? answer : t->request, chance(m, 24), 0, 0 }, 4);
        if (chance(m, 16)) {
            f->data[f->l4] = choose(m, 256);
        }
        put16(f, t->id);
        put16(f, choose(m, 10));
        put_payload(m, f, choose(m, 20));
        end_ip(f, t->v6, t->proto, 2);
    } else {
        begin_ip(f, t->v6, t->proto, t->addr[e][0], t->addr[e][1], options);
        put(f, (uint8_t[]) { chance(m, 2) ? 128 : 8 }, 1);
        put_payload(m, f, 12 + choose(m, 20));
        end_ip(f, t->v6, t->proto, 0);
    }
    if (chance(m, 16)) {
        damage(m, f);
    }
}

/* A packet came out: its receiver answers to whom it sees. */
static void arrive(struct talk *t, int e)
{
    size_t len;
    const uint8_t *f = ct_oracle_frame(&len);
    size_t n = t->v6 ? 16 : 4;
    const uint8_t *ip = f + 14, *l4 = ip + (t->v6 ? 40 : (ip[0] & 15) * 4);

    if (len > MAX_FRAME || len < 14 + (t->v6 ? 48 : 28) || l4 + 4 > f + len || ip[t->v6 ? 6 : 9] != t->proto) {
        return;
    }
    memcpy(t->last[e], f, len);
    t->last_len[e] = len;
    memcpy(t->addr[!e][1], ip + (t->v6 ? 8 : 12), n);
    memcpy(t->addr[!e][0], ip + (t->v6 ? 24 : 16), n);
    if (t->proto == IPPROTO_TCP || t->proto == IPPROTO_UDP) {
        t->port[!e][1] = l4[0] << 8 | l4[1];
        t->port[!e][0] = l4[2] << 8 | l4[3];
    }
}

/* One packet through the zones of its connection, in the direction of end 'e'. */
static enum parity talk_on(struct making *m, struct talk *t, int e)
{
    struct frame f;
    bool intact = true;

    make_packet(m, t, e, &f);
    if (!ct_oracle_packet(f.data, f.len)) {
        return PARITY_EQUAL;
    }
    for (int i = 0; i < t->n_steps; i++) {
        struct ct_step step = t->steps[e ? t->n_steps - 1 - i : i];
        enum parity result;

        if (e) {
            /* Answers go through the same zones, most often without a range. */
            step.nat_action = choose(m, 8) ? 0 : step.nat_action;
            step.commit = step.nat_action;
            if (!step.nat_action) {
                memset(step.min_addr, 0, 16);
            }
            step.set_mark &= chance(m, 4);
            step.set_label &= chance(m, 4);
        }
        if (chance(m, 16)) {
            make_step(m, &step, choose(m, 3));
        }
        step.commit &= step.nat_action || !step.nat;
        step.force = step.commit && chance(m, 16);

        for (int again = chance(m, 6) ? 2 : 1; again; again--) {
            result = ct_oracle_step(&step);
            if (result != PARITY_EQUAL) {
                return result;
            }
            if (chance(m, 2)) {
                step.nat ^= 1;
                step.commit &= step.nat_action || !step.nat;
            }
        }
        if (chance(m, 24)) {
            ct_oracle_clear();
        }
        if (chance(m, 32)) {
            uint8_t addr[16];

            address(m, 0x21 + choose(m, 2), addr);
            ct_oracle_set_address(choose(m, 2), addr);
            intact = false;
        }
    }
    if (intact && choose(m, 16)) {
        arrive(t, e);
    }
    return PARITY_EQUAL;
}

static bool pause_between(struct making *m)
{
    static const uint32_t ms[] = { 0, 1, 999, 1000, 5000, 19999, 29999, 30000, 31000, 45000, 60000, 100000, 900000,
                                   3600000, 86400000, 86399999 };

    return ct_oracle_wait(choose(m, 4) ? choose(m, 300) : ms[choose(m, ARRAY_SIZE(ms))], chance(m, 2));
}

enum parity parity_ct(struct ct_choices *choices, bool loses)
{
    static struct making making;
    struct making *m = &making;
    enum parity result = PARITY_EQUAL;
    int n;

    m->choices = choices;
    ct_oracle_begin(loses);
    m->v6 = choose(m, 2);
    m->n_talks = 1 + choose(m, MAX_TALKS);
    if (chance(m, 8)) {
        ct_oracle_limit_zone((int) choose(m, 3) - 1, choose(m, 4));
    }
    if (chance(m, 16)) {
        ct_oracle_limit(choose(m, 5));
    }
    if (chance(m, 8)) {
        ct_oracle_check_sequence(false);
    }
    for (int i = 0; i < m->n_talks; i++) {
        make_talk(m, &m->talks[i]);
    }
    n = 5 + choose(m, 60);
    for (int i = 0; i < n && result == PARITY_EQUAL && (!choices->data || choices->left); i++) {
        struct talk *t = &m->talks[choose(m, m->n_talks)];

        if (chance(m, 4) && !pause_between(m)) {
            fprintf(stderr, "after a pause\n");
            result = PARITY_DIFFERENT;
        } else if (chance(m, 64)) {
            ct_oracle_flush((int) choose(m, 4) - 1);
        } else {
            choices->packets++;
            result = talk_on(m, t, i ? choose(m, 2) : 0);
        }
    }
    return result;
}
