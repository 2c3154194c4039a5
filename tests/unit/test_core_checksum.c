/* SPDX-License-Identifier: Apache-2.0 */
/* oxdp_checksum_complete() on packets whose right checksums were computed elsewhere (scapy 2.5). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/checksum.h"

/* A right packet.  With 'partial' (host order) at 'field' it is what a stack leaves to offload: the sum of
 * the pseudo header, or zero for SCTP. */
static const struct completed {
    const char *name;
    size_t field;
    uint16_t partial;
    const char *hex;
} completed[] = {
    { "TCP over IPv4, odd payload", 50, 0x1624,
      "02000000000202000000000108004500002d00010000400664c60a0101010a01010203e8005000000001000000025018"
      "020069c100006162636465" },
    { "UDP over IPv4", 40, 0x1622,
      "02000000000202000000000108004500002000010000401164c80a0101010a01010203e80035000c20ee61626364" },
    { "UDP whose checksum comes out as zero", 40, 0x1620,
      "02000000000202000000000108004500001e00010000401164ca0a0101010a01010203e80035000affffe5b8" },
    { "TCP behind IPv4 options", 54, 0x1621,
      "02000000000202000000000108004600002e000100004006cfc00a0101010a0101029404000003e80050000000010000"
      "000250180200322900006162" },
    { "TCP over IPv6", 70, 0xf821,
      "02000000000202000000000186dd6000000000170640fc000000000000000000000000000001fc000000000000000000"
      "00000000000203e80050000000010000000250180200ed270000616263" },
    { "UDP over IPv6", 60, 0xf820,
      "02000000000202000000000186dd60000000000b1140fc000000000000000000000000000001fc000000000000000000"
      "00000000000203e80035000b3f54616263" },
    { "UDP behind two IPv6 extension headers", 84, 0xf820,
      "02000000000202000000000186dd6000000000230040fc000000000000000000000000000001fc000000000000000000"
      "0000000000023c000104000000001101010c00000000000000000000000003e80035000b3f54616263" },
    { "TCP behind a VLAN tag", 54, 0x1620,
      "0200000000020200000000018100000508004500002900010000400664ca0a0101010a01010203e80050000000010000"
      "000250180200328c000061" },
    { "UDP over IPv6 behind two VLAN tags", 68, 0xf81f,
      "02000000000202000000000188a800068100000586dd60000000000a1140fc000000000000000000000000000001fc00"
      "000000000000000000000000000203e80035000aa2566162" },
    { "TCP in a padded frame", 50, 0x161f,
      "02000000000202000000000108004500002800010000400664cb0a0101010a01010203e8005000000001000000025018"
      "0200938d0000a5a5a5a5a5a5" },
    { "SCTP over IPv4", 42, 0,
      "02000000000202000000000108004500002400010000408464510a0101010a0101020001000200000003c866090e0b00"
      "0004" },
    { "SCTP over IPv6", 62, 0,
      "02000000000202000000000186dd6000000000108440fc000000000000000000000000000001fc000000000000000000"
      "0000000000020001000200000003c866090e0b000004" },
};

/* Frames that must stay as they are, although the checksum field (if there is one) holds the pseudo
 * header's sum: a packet above, with one 16-bit word changed. */
static const struct untouched {
    const char *name;
    const char *of;             /* Name in the table above. */
    size_t at;
    uint16_t word;
    uint16_t partial;           /* If not 0: the sum that goes with the change. */
} untouched[] = {
    { "first fragment", "UDP over IPv4", 20, 0x2000 },
    { "later fragment", "UDP over IPv4", 20, 0x0001 },
    { "total length beyond the frame", "UDP over IPv4", 16, 0x0021 },
    { "total length less than the header", "UDP over IPv4", 16, 0x0013 },
    { "header length less than a header", "UDP over IPv4", 14, 0x4400 },
    { "not version 4", "UDP over IPv4", 14, 0x6500 },
    { "ICMP", "UDP over IPv4", 22, 0x4001 },
    { "UDP length beyond the packet", "UDP over IPv4", 38, 0x000d, 0x1623 },
    { "UDP length less than a header", "UDP over IPv4", 38, 0x0007, 0x161d },
    { "UDP without a checksum", "UDP over IPv4", 40, 0x0000 },
    { "another Ethernet type", "UDP over IPv4", 12, 0x0806 },
    { "not version 6", "UDP over IPv6", 14, 0x4000 },
    { "payload length beyond the frame", "UDP over IPv6", 18, 0x000c },
    { "IPv6 fragment header", "UDP over IPv6", 20, 0x2c40 },
    { "extension header beyond the packet", "UDP behind two IPv6 extension headers", 54, 0x3c05 },
    { "SCTP with a checksum", "SCTP over IPv4", 42, 0x0001 },
};

static size_t from_hex(const char *hex, uint8_t **ret_bytes)
{
    size_t len = strlen(hex) / 2;

    *ret_bytes = malloc(len);
    for (size_t i = 0; i < len; i++) {
        sscanf(hex + 2 * i, "%2hhx", &(*ret_bytes)[i]);
    }
    return len;
}

static void put16(uint8_t *p, uint16_t value)
{
    p[0] = value >> 8;
    p[1] = value;
}

static size_t make_partial(const struct completed *row, uint8_t **ret_bytes)
{
    size_t len = from_hex(row->hex, ret_bytes);

    put16(*ret_bytes + row->field, row->partial);
    if (!row->partial) {
        put16(*ret_bytes + row->field + 2, 0);
    }
    return len;
}

static void test_completed(void **state)
{
    for (size_t i = 0; i < sizeof completed / sizeof completed[0]; i++) {
        uint8_t *frame, *right;
        size_t len = make_partial(&completed[i], &frame);

        print_message("    %s\n", completed[i].name);
        from_hex(completed[i].hex, &right);
        assert_true(oxdp_checksum_complete(frame, len));
        assert_memory_equal(frame, right, len);

        /* A right checksum stays, though by chance it may look like CHECKSUM_PARTIAL. */
        oxdp_checksum_complete(frame, len);
        assert_memory_equal(frame, right, len);
        free(frame);
        free(right);
    }
}

static void test_untouched(void **state)
{
    for (size_t i = 0; i < sizeof untouched / sizeof untouched[0]; i++) {
        const struct completed *row = completed;
        uint8_t *frame, *before;
        size_t len;

        print_message("    %s\n", untouched[i].name);
        while (strcmp(row->name, untouched[i].of)) {
            row++;
        }
        len = make_partial(row, &frame);
        put16(frame + untouched[i].at, untouched[i].word);
        if (untouched[i].partial) {
            put16(frame + row->field, untouched[i].partial);
        }
        before = malloc(len);
        memcpy(before, frame, len);
        assert_false(oxdp_checksum_complete(frame, len));
        assert_memory_equal(frame, before, len);
        free(frame);
        free(before);
    }
}

/* No more tags than the two that the switch understands. */
static void test_third_tag(void **state)
{
    for (size_t i = 0; i < sizeof completed / sizeof completed[0]; i++) {
        uint8_t *frame;
        size_t len = make_partial(&completed[i], &frame);
        uint8_t *tagged = malloc(len + 12), *before = malloc(len + 12);

        memcpy(tagged, frame, 12);
        for (int tag = 0; tag < 3; tag++) {
            memcpy(tagged + 12 + 4 * tag, "\x81\x00\x00\x07", 4);
        }
        memcpy(tagged + 24, frame + 12, len - 12);
        memcpy(before, tagged, len + 12);
        assert_false(oxdp_checksum_complete(tagged, len + 12));
        assert_memory_equal(tagged, before, len + 12);
        free(before);
        free(tagged);
        free(frame);
    }
}

/* Cut anywhere, a frame is read only as far as it goes (AddressSanitizer sees to that) and written only
 * whole. */
static void test_truncated(void **state)
{
    for (size_t i = 0; i < sizeof completed / sizeof completed[0]; i++) {
        uint8_t *whole;
        size_t len = make_partial(&completed[i], &whole);
        bool padded = !!strstr(completed[i].name, "padded");

        for (size_t cut = 0; cut < len - (padded ? 6 : 0); cut++) {
            uint8_t *frame = malloc(cut ? cut : 1);

            memcpy(frame, whole, cut);
            assert_false(oxdp_checksum_complete(frame, cut));
            assert_memory_equal(frame, whole, cut);
            free(frame);
        }
        free(whole);
    }
}

/* Any bytes at all, most of them close to a packet. */
static void test_garbage(void **state)
{
    srand(1);
    for (int round = 0; round < 200000; round++) {
        const struct completed *row = &completed[round % (sizeof completed / sizeof completed[0])];
        uint8_t *frame;
        size_t len = make_partial(row, &frame);

        for (int i = rand() % 8; i >= 0; i--) {
            frame[12 + rand() % (len - 12)] = rand();
        }
        oxdp_checksum_complete(frame, len);
        free(frame);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completed),
        cmocka_unit_test(test_untouched),
        cmocka_unit_test(test_third_tag),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_garbage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
