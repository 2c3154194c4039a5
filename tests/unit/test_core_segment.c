/* SPDX-License-Identifier: Apache-2.0 */
/* Segments that are cut out of a packet, against the packet: payload, sequence numbers, flags, lengths, checksums. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

#include <netinet/in.h>

#include "core/segment.h"

#define PAYLOAD 3001                    /* Two whole segments and a rest. */
#define SIZE 1400
#define MAX_LEN 4096

/* Headers of a packet with FIN, PSH, ACK and CWR, whose checksum is left to a device. */
static const struct shape {
    const char *name;
    int version, protocol, tags, tcp_options;
} shapes[] = {
    { "TCP over IPv4", 4, IPPROTO_TCP, 0, 0 },
    { "TCP over IPv4, options, a tag", 4, IPPROTO_TCP, 1, 12 },
    { "TCP over IPv6, two tags", 6, IPPROTO_TCP, 2, 12 },
    { "UDP over IPv4", 4, IPPROTO_UDP, 0, 0 },
    { "UDP over IPv6, a tag", 6, IPPROTO_UDP, 1, 0 },
};

static size_t l3_of(const struct shape *shape) { return 14 + 4 * shape->tags; }
static size_t l4_of(const struct shape *shape) { return l3_of(shape) + (shape->version == 4 ? 20 : 40); }
static size_t header_of(const struct shape *shape)
{
    return shape->protocol == IPPROTO_TCP ? 20 + shape->tcp_options : 8;
}

static void put16(uint8_t *p, unsigned int value)
{
    p[0] = value >> 8;
    p[1] = value;
}

static unsigned int get16(const uint8_t *p) { return p[0] << 8 | p[1]; }
static uint32_t get32(const uint8_t *p) { return (uint32_t) get16(p) << 16 | get16(p + 2); }

static size_t make(const struct shape *shape, uint8_t *frame)
{
    uint8_t *ip = frame + l3_of(shape), *l4 = frame + l4_of(shape), *data = l4 + header_of(shape);
    size_t len = data + PAYLOAD - frame;

    memset(frame, 0, len);
    for (int i = 0; i < shape->tags; i++) {
        put16(frame + 12 + 4 * i, i ? 0x8100 : 0x88a8);
        put16(frame + 14 + 4 * i, 7 + i);
    }
    put16(ip - 2, shape->version == 4 ? 0x0800 : 0x86dd);
    ip[0] = shape->version == 4 ? 0x45 : 0x60;
    if (shape->version == 4) {
        put16(ip + 2, len - (ip - frame));
        put16(ip + 4, 0xffff);
        ip[8] = 64;
        ip[9] = shape->protocol;
    } else {
        put16(ip + 4, len - (l4 - frame));
        ip[6] = shape->protocol;
        ip[7] = 64;
    }
    memset(ip + (shape->version == 4 ? 12 : 8), 0x0a, shape->version == 4 ? 8 : 32);
    put16(l4, 1000);
    put16(l4 + 2, 80);
    if (shape->protocol == IPPROTO_TCP) {
        memset(l4 + 4, 0xff, 4);                /* The sequence number wraps around. */
        l4[12] = header_of(shape) << 2;
        l4[13] = 0x80 | 0x10 | 0x08 | 0x01;
    } else {
        put16(l4 + 4, 8 + PAYLOAD);
    }
    for (size_t i = 0; i < PAYLOAD; i++) {
        data[i] = i * 7;
    }
    return len;
}

/* RFC 1071, a byte at a time, of 'len' bytes: 0xffff if the checksum in them is right. */
static unsigned int sum(const uint8_t *p, size_t len, unsigned int with)
{
    for (size_t i = 0; i < len; i++) {
        with += i % 2 ? p[i] : p[i] << 8;
        with = (with & 0xffff) + (with >> 16);
    }
    return with;
}

static void check_segment(const struct shape *shape, const uint8_t *segment, size_t len, size_t n, size_t at,
                          size_t payload)
{
    const uint8_t *ip = segment + l3_of(shape), *l4 = segment + l4_of(shape);
    size_t l4_len = len - l4_of(shape);
    bool is_last = at + payload == PAYLOAD;

    assert_int_equal(l4_len, header_of(shape) + payload);
    for (size_t i = 0; i < payload; i++) {
        assert_int_equal(l4[header_of(shape) + i], (uint8_t) ((at + i) * 7));
    }
    if (shape->version == 4) {
        assert_int_equal(get16(ip + 2), len - l3_of(shape));
        assert_int_equal(get16(ip + 4), (uint16_t) (0xffff + n));
        assert_int_equal(sum(ip, 20, 0), 0xffff);
    } else {
        assert_int_equal(get16(ip + 4), l4_len);
    }
    assert_int_equal(sum(ip + (shape->version == 4 ? 12 : 8), shape->version == 4 ? 8 : 32,
                         sum(l4, l4_len, shape->protocol + l4_len)), 0xffff);
    if (shape->protocol == IPPROTO_TCP) {
        assert_int_equal(get32(l4 + 4), (uint32_t) (0xffffffff + at));
        assert_int_equal(l4[13], 0x10 | (n ? 0 : 0x80) | (is_last ? 0x09 : 0));
    } else {
        assert_int_equal(get16(l4 + 4), l4_len);
    }
    assert_memory_equal(segment, (uint8_t[12]) { 0 }, 12);
}

static void test_segments(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *shape = &shapes[i];
        uint8_t frame[MAX_LEN], before[MAX_LEN], segment[MAX_LEN];
        size_t len = make(shape, frame), n = 0, at = 0, now;
        struct oxdp_segments s;

        memcpy(before, frame, len);
        assert_true(oxdp_segments_begin(&s, frame, len, SIZE));
        while ((now = oxdp_segments_next_len(&s)) != 0) {
            size_t payload = now - l4_of(shape) - header_of(shape);

            assert_int_equal(payload, PAYLOAD - at < SIZE ? PAYLOAD - at : SIZE);
            oxdp_segments_next(&s, segment);
            check_segment(shape, segment, now, n++, at, payload);
            at += payload;
        }
        assert_int_equal(n, 3);
        assert_int_equal(at, PAYLOAD);
        assert_memory_equal(frame, before, len);
    }
}

static void test_what_cannot_be_cut(void **state)
{
    uint8_t frame[MAX_LEN];
    struct oxdp_segments s;
    size_t len = make(&shapes[0], frame);
    uint8_t *ip = frame + l3_of(&shapes[0]);

    (void) state;
    assert_false(oxdp_segments_begin(&s, frame, len, 0));
    assert_false(oxdp_segments_begin(&s, frame, len - 1, SIZE));        /* Truncated. */
    assert_int_equal(oxdp_segments_next_len(&s), 0);
    assert_false(oxdp_segments_begin(&s, frame, l4_of(&shapes[0]) + 19, SIZE));
    put16(ip + 6, 0x2000);                                              /* A fragment. */
    assert_false(oxdp_segments_begin(&s, frame, len, SIZE));
    put16(ip + 6, 0);
    ip[9] = IPPROTO_SCTP;
    assert_false(oxdp_segments_begin(&s, frame, len, SIZE));
    ip[9] = IPPROTO_TCP;
    frame[l4_of(&shapes[0]) + 12] = 0x10;                               /* A header of 4 bytes. */
    assert_false(oxdp_segments_begin(&s, frame, len, SIZE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_what_cannot_be_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
