/* SPDX-License-Identifier: Apache-2.0 */
/* Connection tracking as Open vSwitch has it since 3.2, 3.6 and 4.0, of which lib/conntrack of an older one cannot be
 * the oracle: ports of SCTP, errors about first fragments, and NAT that changes ICMP's id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "dp/crc32c.h"
#include "tests/parity/ct_world.h"

#define NOW 1000000
#define L3 14
#define L4 34
#define CLIENT 0x0a000001u
#define OTHER_CLIENT 0x0a000003u
#define SERVER 0x0a000002u
#define OUTSIDE 0xc0000201u             /* What NAT makes of clients. */

struct frame {
    uint8_t data[256];
    size_t len;
};

static void put16(uint8_t *p, uint32_t v) { p[0] = v >> 8, p[1] = v; }
static uint32_t get16(const uint8_t *p) { return p[0] << 8 | p[1]; }
static void put32(uint8_t *p, uint32_t v) { put16(p, v >> 16), put16(p + 2, v); }
static uint32_t get32(const uint8_t *p) { return get16(p) << 16 | get16(p + 2); }

static uint16_t sum(const uint8_t *p, size_t n)
{
    uint32_t total = 0;

    for (size_t i = 0; i < n; i++) {
        total += i & 1 ? p[i] : p[i] << 8;
    }
    while (total >> 16) {
        total = (total & 0xffff) + (total >> 16);
    }
    return ~total;
}

static void put_ip(uint8_t *ip, uint8_t proto, uint32_t src, uint32_t dst, size_t len)
{
    memset(ip, 0, 20);
    ip[0] = 0x45;
    put16(ip + 2, len);
    ip[8] = 64;
    ip[9] = proto;
    put32(ip + 12, src);
    put32(ip + 16, dst);
    put16(ip + 10, sum(ip, 20));
}

static void finish_sctp(struct frame *f)
{
    uint32_t crc = dp_le32(dp_crc32c_sctp(f->data + L4, f->len - L4));

    memcpy(f->data + L4 + 8, &crc, sizeof crc);
}

/* A message of two chunks, the first of which is padded. */
static struct frame sctp(uint32_t src, uint32_t dst, uint16_t src_port, uint16_t dst_port)
{
    struct frame f = { .len = L4 + 12 + 8 + 4 };
    uint8_t *chunks = f.data + L4 + 12;

    put16(f.data + 12, 0x800);
    put_ip(f.data + L3, 132, src, dst, f.len - L3);
    put16(f.data + L4, src_port);
    put16(f.data + L4 + 2, dst_port);
    put32(f.data + L4 + 4, 0x12345678);
    put16(chunks + 2, 5);
    put16(chunks + 8 + 2, 4);
    finish_sctp(&f);
    return f;
}

static struct frame icmp(uint32_t src, uint32_t dst, uint8_t type, uint16_t id)
{
    struct frame f = { .len = L4 + 8 + 6 };

    put16(f.data + 12, 0x800);
    put_ip(f.data + L3, 1, src, dst, f.len - L3);
    f.data[L4] = type;
    put16(f.data + L4 + 4, id);
    memcpy(f.data + L4 + 8, "answer", 6);
    put16(f.data + L4 + 2, sum(f.data + L4, f.len - L4));
    return f;
}

static struct frame udp(uint32_t src, uint32_t dst, uint16_t src_port, uint16_t dst_port)
{
    struct frame f = { .len = L4 + 8 };

    put16(f.data + 12, 0x800);
    put_ip(f.data + L3, 17, src, dst, f.len - L3);
    put16(f.data + L4, src_port);
    put16(f.data + L4 + 2, dst_port);
    put16(f.data + L4 + 4, 8);
    return f;
}

/* "Port unreachable", about the first 28 bytes of the packet in 'about'. */
static struct frame unreachable(uint32_t src, uint32_t dst, const struct frame *about)
{
    struct frame f = { .len = L4 + 8 + 28 };

    put16(f.data + 12, 0x800);
    put_ip(f.data + L3, 1, src, dst, f.len - L3);
    f.data[L4] = 3;
    f.data[L4 + 1] = 3;
    memcpy(f.data + L4 + 8, about->data + L3, 28);
    put16(f.data + L4 + 2, sum(f.data + L4, f.len - L4));
    return f;
}

/* ct() of the frame.  Returns its ct_state without +trk. */
static uint8_t track(struct ct_world *w, struct frame *f, const struct dp_ct_action *action, struct dp_ct_run *run)
{
    struct dp_frame layers = { .l3 = L3, .l4 = L4, .l4_len = f->len - L4 };

    memset(run, 0, sizeof *run);
    w->ctx.start = w->ctx.data = f->data;
    w->ctx.end = f->data + f->len;
    assert_int_equal(dp_ct(&w->ctx, &layers, 0, action, NOW, run), DP_CT_DONE);
    return run->md.state & ~DP_CS_TRK;
}

static struct dp_ct_action commit(uint32_t flags)
{
    return (struct dp_ct_action) { .zone = 7, .flags = DP_CT_COMMIT | flags };
}

static struct dp_ct_action to_outside(uint32_t flags)
{
    struct dp_ct_action action = commit(DP_CT_NAT | DP_CT_TO_SRC | flags);

    action.nat.min[0] = action.nat.max[0] = dp_htonl(OUTSIDE).raw;
    return action;
}

/* Associations between two hosts differ by their ports, or are one connection without DP_CT_SCTP. */
static void test_sctp_has_ports(void **state)
{
    struct ct_world w;
    struct dp_ct_run run;

    for (int has = 0; has < 2; has++) {
        struct dp_ct_action make = commit(has ? DP_CT_SCTP : 0), look = { .zone = 7, .flags = has ? DP_CT_SCTP : 0 };
        struct frame first = sctp(CLIENT, SERVER, 1000, 2000), second = sctp(CLIENT, SERVER, 1001, 2000),
            answer = sctp(SERVER, CLIENT, 2000, 1000), again = sctp(CLIENT, SERVER, 1001, 2000);

        ct_world_init(&w, 16, 16);
        assert_int_equal(track(&w, &first, &make, &run), DP_CS_NEW);
        assert_int_equal(run.md.tp[0], has ? dp_htons(1000).raw : 0);
        assert_int_equal(track(&w, &answer, &look, &run), DP_CS_EST | DP_CS_RPL);
        assert_int_equal(track(&w, &second, &make, &run), has ? DP_CS_NEW : DP_CS_EST);
        assert_int_equal(track(&w, &again, &look, &run), has ? DP_CS_NEW : DP_CS_EST);
        assert_int_equal(w.tables.head->n_conns, 1 + has);
        ct_world_destroy(&w);
    }
}

/* What is damaged is +inv: a checksum, unless it is known to be right; a chunk that is too short, or longer than the
 * message; padding that is missing; a header that is not whole; port 0. */
static void test_sctp_is_verified(void **state)
{
    struct dp_ct_action make = commit(DP_CT_SCTP), good = commit(DP_CT_SCTP | DP_CT_GOOD_L4);
    const struct frame whole = sctp(CLIENT, SERVER, 1000, 2000);
    struct frame damaged[7];
    struct dp_ct_run run;
    struct ct_world w;

    for (size_t i = 0; i < 7; i++) {
        damaged[i] = whole;
    }
    ct_world_init(&w, 16, 16);
    damaged[0].data[L4 + 12 + 4] ^= 1;
    assert_int_equal(track(&w, &damaged[0], &make, &run), DP_CS_INV);
    assert_int_equal(track(&w, &damaged[0], &good, &run), DP_CS_NEW);
    put16(damaged[1].data + L4 + 12 + 2, 3);
    put16(damaged[2].data + L4 + 12 + 8 + 2, 5);
    damaged[3].len -= 4 + 1;
    damaged[4].len = L4 + 11;
    put16(damaged[5].data + L4, 0);
    put16(damaged[6].data + L4 + 12 + 8 + 2, 3);        /* The last chunk. */
    for (int i = 1; i < 7; i++) {
        put_ip(damaged[i].data + L3, 132, CLIENT, SERVER, damaged[i].len - L3);
        if (damaged[i].len >= L4 + 12) {
            finish_sctp(&damaged[i]);
        }
        assert_int_equal(track(&w, &damaged[i], &make, &run), DP_CS_INV);
        assert_int_equal(track(&w, &damaged[i], &good, &run), DP_CS_INV);
    }
    ct_world_destroy(&w);
}

static void check(const struct frame *f, struct frame want)
{
    assert_int_equal(f->len, want.len);
    assert_memory_equal(f->data, want.data, want.len);
}

/* NAT chooses ports, both ways with the right checksum, and in what an ICMP error quotes. */
static void test_sctp_is_translated(void **state)
{
    struct dp_ct_action look = { .zone = 7, .flags = DP_CT_SCTP | DP_CT_NAT };
    struct dp_ct_action make = to_outside(DP_CT_SCTP | DP_CT_TO_PORTS);
    struct frame second = sctp(OTHER_CLIENT, SERVER, 1000, 2000);
    struct frame first = sctp(CLIENT, SERVER, 1000, 2000);
    struct frame answer, error;
    struct dp_ct_run run;
    struct ct_world w;

    make.nat.min_port = 5000;
    make.nat.max_port = 5001;
    ct_world_init(&w, 16, 16);
    assert_int_equal(track(&w, &first, &make, &run), DP_CS_NEW | DP_CS_SNAT);

    uint16_t port = get16(first.data + L4), other = port ^ 5000 ^ 5001;

    assert_in_range(port, 5000, 5001);
    check(&first, sctp(OUTSIDE, SERVER, port, 2000));
    assert_int_equal(track(&w, &second, &make, &run), DP_CS_NEW | DP_CS_SNAT);
    check(&second, sctp(OUTSIDE, SERVER, other, 2000));

    error = unreachable(SERVER, OUTSIDE, &second);
    assert_int_equal(track(&w, &error, &look, &run), DP_CS_REL | DP_CS_RPL | DP_CS_DNAT);
    assert_int_equal(get32(error.data + L3 + 16), OTHER_CLIENT);
    assert_int_equal(get32(error.data + L4 + 8 + 12), OTHER_CLIENT);
    assert_int_equal(get16(error.data + L4 + 8 + 20), 1000);
    assert_int_equal(sum(error.data + L4, error.len - L4), 0);

    answer = sctp(SERVER, OUTSIDE, 2000, other);
    assert_int_equal(track(&w, &answer, &look, &run), DP_CS_EST | DP_CS_RPL | DP_CS_DNAT);
    check(&answer, sctp(SERVER, OTHER_CLIENT, 2000, 1000));

    struct frame third = sctp(CLIENT, SERVER, 1001, 2000);

    assert_int_equal(track(&w, &third, &make, &run), DP_CS_NEW);
    assert_int_equal(run.ref, 0);
    assert_int_equal(w.tables.head->n_refused[DP_CT_REFUSED_NAT], 1);
    ct_world_destroy(&w);
}

/* Two hosts that ask one server with one id get one address: without DP_CT_ICMP_ID the second is refused. */
static void test_icmp_gets_another_id(void **state)
{
    struct dp_ct_run run;
    struct ct_world w;

    for (int may = 0; may < 2; may++) {
        struct dp_ct_action make = to_outside(may ? DP_CT_ICMP_ID : 0), look = { .zone = 7, .flags = DP_CT_NAT };
        struct frame first = icmp(CLIENT, SERVER, 8, 2000), second = icmp(OTHER_CLIENT, SERVER, 8, 2000), answer, error;

        ct_world_init(&w, 16, 16);
        assert_int_equal(track(&w, &first, &make, &run), DP_CS_NEW | DP_CS_SNAT);
        check(&first, icmp(OUTSIDE, SERVER, 8, 2000));
        assert_false(w.tables.keys[DP_CT_REF_INDEX(run.ref)].flags & DP_CT_KEY_ENGINE);
        if (!may) {
            assert_int_equal(track(&w, &second, &make, &run), DP_CS_NEW);
            assert_int_equal(run.ref, 0);
            ct_world_destroy(&w);
            continue;
        }
        assert_int_equal(track(&w, &second, &make, &run), DP_CS_NEW | DP_CS_SNAT);
        check(&second, icmp(OUTSIDE, SERVER, 8, 2001));
        assert_true(w.tables.keys[DP_CT_REF_INDEX(run.ref)].flags & DP_CT_KEY_ENGINE);

        error = unreachable(SERVER, OUTSIDE, &second);
        assert_int_equal(track(&w, &error, &look, &run), DP_CS_REL | DP_CS_RPL | DP_CS_DNAT);
        assert_int_equal(get32(error.data + L4 + 8 + 12), OTHER_CLIENT);
        assert_int_equal(get16(error.data + L4 + 8 + 20 + 4), 2000);

        answer = icmp(SERVER, OUTSIDE, 0, 2001);
        assert_int_equal(track(&w, &answer, &look, &run), DP_CS_EST | DP_CS_RPL | DP_CS_DNAT);
        check(&answer, icmp(SERVER, OTHER_CLIENT, 0, 2000));
        answer = icmp(SERVER, OUTSIDE, 0, 2000);
        assert_int_equal(track(&w, &answer, &look, &run), DP_CS_EST | DP_CS_RPL | DP_CS_DNAT);
        check(&answer, icmp(SERVER, CLIENT, 0, 2000));
        ct_world_destroy(&w);
    }
}

/* Ids come of a range of ports, if there is one for sources. */
static void test_icmp_ids_of_a_range(void **state)
{
    struct dp_ct_action make = to_outside(DP_CT_ICMP_ID | DP_CT_TO_PORTS);
    struct frame first = icmp(CLIENT, SERVER, 8, 2000), second = icmp(OTHER_CLIENT, SERVER, 8, 2000);
    struct dp_ct_run run;
    struct ct_world w;

    make.nat.min_port = 5000;
    make.nat.max_port = 5001;
    ct_world_init(&w, 16, 16);
    assert_int_equal(track(&w, &first, &make, &run), DP_CS_NEW | DP_CS_SNAT);

    uint16_t id = get16(first.data + L4 + 4);

    assert_in_range(id, 5000, 5001);
    check(&first, icmp(OUTSIDE, SERVER, 8, id));
    assert_int_equal(track(&w, &second, &make, &run), DP_CS_NEW | DP_CS_SNAT);
    check(&second, icmp(OUTSIDE, SERVER, 8, id ^ 5000 ^ 5001));
    ct_world_destroy(&w);
}

/* An error about the first fragment of a packet belongs to the packet's connection, and NAT changes what it quotes,
 * with DP_CT_FIRST_FRAGMENT alone.  A later fragment has no ports. */
static void test_error_about_a_fragment(void **state)
{
    static const struct {
        uint16_t fragment;
        uint32_t flags;
        bool related;
    } rows[] = {
        { 0x2000, DP_CT_FIRST_FRAGMENT, true },
        { 0x2000, 0, false },
        { 0x2001, DP_CT_FIRST_FRAGMENT, false },
        { 0x1000, DP_CT_FIRST_FRAGMENT, false },
        { 0x4000, DP_CT_FIRST_FRAGMENT, true },
        { 0x4000, 0, true },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dp_ct_action make = to_outside(0), look = { .zone = 7, .flags = DP_CT_NAT | rows[i].flags };
        struct frame first = udp(CLIENT, SERVER, 1000, 2000), error;
        struct dp_ct_run run;
        struct ct_world w;

        ct_world_init(&w, 16, 16);
        assert_int_equal(track(&w, &first, &make, &run), DP_CS_NEW | DP_CS_SNAT);
        put16(first.data + L3 + 6, rows[i].fragment);
        error = unreachable(SERVER, OUTSIDE, &first);
        if (rows[i].related) {
            assert_int_equal(track(&w, &error, &look, &run), DP_CS_REL | DP_CS_RPL | DP_CS_DNAT);
            assert_int_equal(get32(error.data + L3 + 16), CLIENT);
            assert_int_equal(get32(error.data + L4 + 8 + 12), CLIENT);
            assert_int_equal(sum(error.data + L4, error.len - L4), 0);
        } else {
            assert_int_equal(track(&w, &error, &look, &run), DP_CS_INV);
            assert_int_equal(get32(error.data + L3 + 16), OUTSIDE);
        }
        ct_world_destroy(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sctp_has_ports),
        cmocka_unit_test(test_sctp_is_verified),
        cmocka_unit_test(test_sctp_is_translated),
        cmocka_unit_test(test_icmp_gets_another_id),
        cmocka_unit_test(test_icmp_ids_of_a_range),
        cmocka_unit_test(test_error_about_a_fragment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
