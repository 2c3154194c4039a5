/* SPDX-License-Identifier: Apache-2.0 */
/* Ticks become the time that they stand for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <time.h>

#include "core/kernel/ticks.h"

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void test_now(void **state)
{
    struct oxdp_ticks *t;

    assert_int_equal(oxdp_ticks_open(&t), 0);
    assert_int_equal(oxdp_ticks_to_ms(t, 0), 0);

    /* Any number of ticks ago is as long ago as the rate says. */
    unsigned int hz = oxdp_ticks_per_second(t);
    uint64_t boot = (1ull << 32) - 300 * hz;
    int64_t before = now_ms();

    assert_in_range(llabs(oxdp_ticks_to_ms(t, boot + (uint64_t) before * hz / 1000) - before), 0, 5000);
    assert_in_range(oxdp_ticks_to_ms(t, oxdp_ticks_after(t, 3000)) - oxdp_ticks_to_ms(t, oxdp_ticks_after(t, 0)), 2980,
                    3020);
    oxdp_ticks_close(t);
}

static void test_every_rate_is_recognised(void **state)
{
    static const unsigned int rates[] = { 100, 250, 300, 1000 };
    static const unsigned int uptimes[] = { 1, 60, 280, 320, 3600, 86400, 864000, 31536000 };

    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < sizeof uptimes / sizeof uptimes[0]; j++) {
            struct dp_ticks_sample sample = {
                .ticks = (1ull << 32) - 300 * rates[i] + (uint64_t) uptimes[j] * rates[i] + 3,
                .now = uptimes[j] * 1000000000ull,
            };

            assert_int_equal(oxdp_ticks_guess_hz(&sample), rates[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_now),
        cmocka_unit_test(test_every_rate_is_recognised),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
