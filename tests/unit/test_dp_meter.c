/* SPDX-License-Identifier: Apache-2.0 */
/* Meters: the rate that passes is the rate that was asked for, after the burst; the band of the highest rate counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "dp/seam_native.h"
#include "dp/meter.h"

#define SECOND 1000000000ull

struct world {
    struct dp_meter meter;
    struct dp_tables tables;
    struct dp_ctx ctx;
    struct dp_frame frame;
};

static void world_init(struct world *w, uint32_t frame_len)
{
    memset(w, 0, sizeof *w);
    w->tables.meters = &w->meter;
    w->tables.n_meters = 1;
    w->ctx.tables = &w->tables;
    w->ctx.now = 1000 * SECOND;
    w->frame.len = frame_len;
}

/* Sends a packet every 'interval' nanoseconds for 'duration'; returns how many passed. */
static unsigned int send(struct world *w, uint64_t interval, uint64_t duration)
{
    unsigned int passed = 0;

    for (uint64_t end = w->ctx.now + duration; w->ctx.now < end; w->ctx.now += interval) {
        passed += !dp_meter_drops(&w->ctx, &w->frame, 0);
    }
    return passed;
}

static void test_packets_per_second(void **state)
{
    struct world w;

    world_init(&w, 100);
    w.meter.active = 1;
    w.meter.n_bands = 1;
    w.meter.per_packet = 1;
    w.meter.band[0].rate = 1000;
    w.meter.band[0].cost_ns16 = (SECOND << 16) / 1000;  /* 1,000 packets a second ... */
    w.meter.band[0].burst = SECOND / 10;             /* ... after a burst of 100. */
    assert_int_equal(send(&w, SECOND / 10000, SECOND), 100 + 1000 - 1);
    assert_int_equal(w.meter.packets, 10000);
    assert_int_equal(w.meter.bytes, 1000000);
    assert_int_equal(w.meter.band[0].packets, 10000 - 1099);
    assert_int_equal(w.meter.band[0].bytes, (10000 - 1099) * 100);

    /* Below the rate everything passes. */
    w.ctx.now += SECOND;
    assert_int_equal(send(&w, SECOND / 900, SECOND), 901);
}

static void test_bits_per_second(void **state)
{
    struct world w;

    world_init(&w, 1250);
    w.meter.active = 1;
    w.meter.n_bands = 1;
    w.meter.band[0].rate = 10000;
    w.meter.band[0].cost_ns16 = (8 * SECOND << 16) / 10000000;  /* 10 Mb/s: 1,000 packets of 10,000 bits. */
    w.meter.band[0].burst = SECOND / 1000;                   /* One packet. */
    assert_in_range(send(&w, SECOND / 5000, SECOND), 999, 1001);
}

static void test_highest_band_counts(void **state)
{
    struct world w;

    world_init(&w, 100);
    w.meter.active = 1;
    w.meter.n_bands = 2;
    w.meter.per_packet = 1;
    w.meter.band[0].rate = 100;
    w.meter.band[1].rate = 1000;
    w.meter.band[0].cost_ns16 = (SECOND << 16) / 100;
    w.meter.band[1].cost_ns16 = (SECOND << 16) / 1000;
    w.meter.band[0].burst = SECOND / 100;
    w.meter.band[1].burst = SECOND / 1000;
    assert_in_range(send(&w, SECOND / 10000, SECOND), 99, 102);
    assert_true(w.meter.band[1].packets > 8000);
    assert_in_range(w.meter.band[0].packets + w.meter.band[1].packets, 9898, 9901);
}

static void test_absent_meter_passes(void **state)
{
    struct world w;

    world_init(&w, 100);
    assert_false(dp_meter_drops(&w.ctx, &w.frame, 0));
    assert_false(dp_meter_drops(&w.ctx, &w.frame, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packets_per_second),
        cmocka_unit_test(test_bits_per_second),
        cmocka_unit_test(test_highest_band_counts),
        cmocka_unit_test(test_absent_meter_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
