/* SPDX-License-Identifier: Apache-2.0 */
/* dp_is_pending() against one's complement addition word by word (RFC 1071). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <setjmp.h>
#include <cmocka.h>

#include "dp/pending.h"

#define ROUNDS 200000

static uint16_t add(uint16_t a, uint16_t b)
{
    uint32_t sum = (uint32_t) a + b;

    return sum + (sum >> 16);
}

static uint16_t pseudo_header(const uint8_t *addresses, int len, uint8_t proto, uint16_t l4_len)
{
    uint16_t sum = add(dp_htons(proto).raw, dp_htons(l4_len).raw);

    for (int i = 0; i < len; i += 2) {
        sum = add(sum, dp_load16(addresses + i));
    }
    return sum;
}

/* The right sum is found, and nothing else, for both lengths of addresses. */
static void test_sums(void **state)
{
    srand(1);
    for (int round = 0; round < ROUNDS; round++) {
        int words = round & 1 ? 4 : 1;
        uint8_t proto = round & 2 ? 6 : 17;
        uint16_t l4_len = rand();
        uint16_t other = rand();
        uint8_t addresses[32];
        uint64_t sum;
        uint16_t right;

        for (int i = 0; i < 32; i++) {
            addresses[i] = round & 4 ? rand() : 0xff;
        }
        right = pseudo_header(addresses, 8 * words, proto, l4_len);
        sum = dp_pending_sum(addresses, words);
        assert_true(dp_is_pending(right, sum, proto, l4_len));
        assert_int_equal(dp_is_pending(other, sum, proto, l4_len), other == right);
        assert_false(dp_is_pending(right + 1, sum, proto, l4_len));
        assert_false(dp_is_pending(right - 1, sum, proto, l4_len));
    }
}

/* A sum of 0 in one's complement is written as 0xffff; a field of 0 says that there is no checksum. */
static void test_zero(void **state)
{
    for (uint32_t l4_len = 8; l4_len < 0x10000; l4_len++) {
        uint16_t sum = add(dp_htons(17).raw, dp_htons(l4_len).raw);
        uint8_t addresses[8] = { 0 };

        dp_store16(addresses, ~sum);
        assert_true(dp_is_pending(0xffff, dp_pending_sum(addresses, 1), 17, l4_len));
        assert_false(dp_is_pending(0, dp_pending_sum(addresses, 1), 17, l4_len));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
