/* SPDX-License-Identifier: Apache-2.0 */
/* Meters: which packets pass, which band is blamed, what is counted. */
#include <config.h>

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>
#include <cmocka.h>

#include "dp-packet.h"
#include "dp/table.h"
#include "openvswitch/ofp-meter.h"
#include "ovs/state/meter.h"
#include "ovs-thread.h"
#include "timeval.h"
#include "util.h"

#define MAX_BANDS 8
#define ID 7
#define HOUR (3600 * INT64_C(1000000))

struct step {
    int64_t at_us;                  /* Since the first step. */
    int n;                          /* Packets, ... */
    uint32_t size;                  /* ... and bytes of each. */
    int passed;
};

static const struct row {
    const char *what;
    uint16_t flags;
    uint32_t n_bands;
    struct { uint32_t rate, burst; } bands[MAX_BANDS];
    struct step steps[6];           /* Up to one without packets. */
    uint64_t dropped[MAX_BANDS];    /* By band, in the end. */
} rows[] = {
    { "a burst, then the rate", OFPMF13_PKTPS | OFPMF13_BURST, 1, { { 10, 5 } },
      { { 0, 8, 60, 5 }, { 100000, 3, 1500, 1 }, { HOUR, 9, 60, 5 } }, { 3 + 2 + 4 } },
    { "parts of a packet add up", OFPMF13_PKTPS | OFPMF13_BURST, 1, { { 10, 1 } },

      { { 0, 1, 60, 1 }, { 60000, 1, 60, 0 }, { 99999, 1, 60, 0 }, { 100000, 1, 60, 1 },
        { 199999, 1, 60, 0 } },
      { 3 } },
    { "no burst size: what comes in a second", OFPMF13_PKTPS, 1, { { 20, 0 } },
      { { 0, 32, 60, 20 }, { 1000000, 32, 60, 20 } }, { 24 } },
    { "bits", OFPMF13_KBPS | OFPMF13_BURST, 1, { { 8, 8 } },
      { { 0, 12, 100, 10 }, { 100000, 2, 100, 1 }, { 150000, 2, 50, 1 } }, { 2 + 1 + 1 } },
    { "a long packet is dropped, a short one passes after it", OFPMF13_KBPS | OFPMF13_BURST, 1, { { 1, 8 } },
      { { 0, 1, 900, 1 }, { 0, 1, 101, 0 }, { 0, 1, 100, 1 }, { 0, 1, 1, 0 } }, { 2 } },
    { "two bands: the faster one that is exceeded is blamed", OFPMF13_PKTPS | OFPMF13_BURST, 2,
      { { 10, 5 }, { 20, 8 } }, { { 0, 10, 60, 5 } }, { 3, 2 } },
    { "the same, the other way round", OFPMF13_PKTPS | OFPMF13_BURST, 2,
      { { 20, 8 }, { 10, 5 } }, { { 0, 10, 60, 5 } }, { 2, 3 } },
    { "rate 0 lets nothing pass", OFPMF13_PKTPS, 1, { { 0, 0 } },
      { { 0, 4, 60, 0 }, { HOUR, 4, 60, 0 } }, { 8 } },
    { "rate 0 after a burst", OFPMF13_PKTPS | OFPMF13_BURST, 1, { { 0, 2 } },
      { { 0, 4, 60, 2 }, { HOUR, 4, 60, 0 } }, { 6 } },
    { "no bands: counts only", OFPMF13_PKTPS | OFPMF13_STATS, 0, { { 0 } }, { { 0, 32, 60, 32 } }, { 0 } },
    { "a thread that is late brings no tokens", OFPMF13_PKTPS | OFPMF13_BURST, 1, { { 10, 1 } },
      { { 100000, 1, 60, 1 }, { 0, 1, 60, 0 }, { 100000, 1, 60, 0 }, { 200000, 1, 60, 1 } }, { 2 } },
    { "the largest numbers", OFPMF13_KBPS | OFPMF13_BURST, 1, { { UINT32_MAX, UINT32_MAX } },
      { { 0, 32, 65535, 32 }, { 1000000 * HOUR, 32, 65535, 32 } }, { 0 } },
    { "eight bands", OFPMF13_PKTPS | OFPMF13_BURST, 8,
      { { 1, 8 }, { 2, 7 }, { 3, 6 }, { 4, 5 }, { 5, 4 }, { 6, 3 }, { 7, 2 }, { 8, 1 } },
      { { 0, 9, 60, 1 } }, { 0, 0, 0, 0, 0, 0, 0, 8 } },
};

static int
set_meter(struct dpif_xdp_meters *meters, uint32_t id, uint16_t flags, const struct ofputil_meter_band *bands,
          uint32_t n_bands)
{
    struct ofputil_meter_band copy[16];
    struct ofputil_meter_config config = { .flags = flags, .n_bands = n_bands, .bands = copy };

    memcpy(copy, bands, n_bands * sizeof *bands);
    return dpif_xdp_meter_set(meters, (ofproto_meter_id) { .uint32 = id }, &config);
}

/* Sends 'n' packets through the meter; returns how many passed. */
static size_t
run(struct dpif_xdp_meters *meters, uint32_t id, int n, uint32_t size, long long int now_us)
{
    struct dp_packet_batch batch;
    size_t passed;

    dp_packet_batch_init(&batch);
    for (int i = 0; i < n; i++) {
        struct dp_packet *packet = dp_packet_new(size);

        dp_packet_put_zeros(packet, size);
        dp_packet_batch_add(&batch, packet);
    }
    dpif_xdp_meter_run(meters, &batch, id, now_us);
    passed = dp_packet_batch_size(&batch);
    dp_packet_delete_batch(&batch, true);
    return passed;
}

static void
test_rows(void **state OVS_UNUSED)
{
    for (const struct row *row = rows; row < &rows[ARRAY_SIZE(rows)]; row++) {
        struct ofputil_meter_band_stats band_stats[MAX_BANDS];
        struct ofputil_meter_stats stats = { .bands = band_stats };
        struct ofputil_meter_band bands[MAX_BANDS];
        ofproto_meter_id id = { .uint32 = ID };
        uint64_t n_packets = 0, n_bytes = 0;
        struct dpif_xdp_meters meters;
        long long int start;

        print_message("%s\n", row->what);
        dpif_xdp_meters_init(&meters);
        for (size_t i = 0; i < row->n_bands; i++) {
            bands[i] = (struct ofputil_meter_band) {
                .type = OFPMBT13_DROP, .rate = row->bands[i].rate, .burst_size = row->bands[i].burst };
        }
        assert_int_equal(set_meter(&meters, ID, row->flags, bands, row->n_bands), 0);

        start = time_usec();
        for (size_t i = 0; i < ARRAY_SIZE(row->steps) && row->steps[i].n; i++) {
            const struct step *step = &row->steps[i];

            assert_int_equal(run(&meters, ID, step->n, step->size, start + step->at_us), step->passed);
            n_packets += step->n;
            n_bytes += (uint64_t) step->n * step->size;
        }

        assert_int_equal(dpif_xdp_meter_get(&meters, id, &stats, MAX_BANDS), 0);
        assert_int_equal(stats.packet_in_count, n_packets);
        assert_int_equal(stats.byte_in_count, n_bytes);
        assert_int_equal(stats.n_bands, row->n_bands);
        for (size_t i = 0; i < row->n_bands; i++) {
            assert_int_equal(band_stats[i].packet_count, row->dropped[i]);
            assert_int_equal(band_stats[i].byte_count == 0, row->dropped[i] == 0);
        }
        dpif_xdp_meters_destroy(&meters);
    }
}

static void
test_errors(void **state OVS_UNUSED)
{
    const struct ofputil_meter_band drop[9] = { { .type = OFPMBT13_DROP, .rate = 1 } };
    const struct ofputil_meter_band remark = { .type = OFPMBT13_DSCP_REMARK, .rate = 1 };
    ofproto_meter_id id = { .uint32 = ID }, too_large, absent = { .uint32 = ID + 1 };
    struct ofputil_meter_band_stats band_stats[1];
    struct ofputil_meter_stats stats = { .bands = band_stats };
    struct ofputil_meter_features features;
    struct dpif_xdp_meters meters;

    dpif_xdp_meter_get_features(NULL, &features);
    assert_int_equal(features.band_types, 1u << OFPMBT13_DROP);
    assert_int_equal(features.max_bands, MAX_BANDS);
    too_large.uint32 = features.max_meters;

    dpif_xdp_meters_init(&meters);
    assert_int_equal(set_meter(&meters, ID, OFPMF13_PKTPS, drop, 1), 0);
    assert_int_equal(set_meter(&meters, features.max_meters - 1, OFPMF13_PKTPS, drop, 1), 0);
    run(&meters, ID, 3, 60, 0);

    /* None of these changes the meter that is there. */
    assert_int_equal(set_meter(&meters, too_large.uint32, OFPMF13_PKTPS, drop, 1), EFBIG);
    assert_int_equal(set_meter(&meters, ID, 1 << 14, drop, 1), EBADF);
    assert_int_equal(set_meter(&meters, ID, OFPMF13_PKTPS, drop, 9), EINVAL);
    assert_int_equal(set_meter(&meters, ID, OFPMF13_PKTPS, &remark, 1), ENODEV);
    assert_int_equal(dpif_xdp_meter_get(&meters, id, &stats, 1), 0);
    assert_int_equal(stats.packet_in_count, 3);

    assert_int_equal(dpif_xdp_meter_get(&meters, too_large, &stats, 1), EFBIG);
    assert_int_equal(dpif_xdp_meter_del(&meters, too_large, &stats, 1), EFBIG);
    assert_int_equal(dpif_xdp_meter_get(&meters, absent, &stats, 1), ENOENT);
    assert_int_equal(dpif_xdp_meter_del(&meters, absent, NULL, 0), ENOENT);
    assert_int_equal(run(&meters, ID + 1, 3, 60, 0), 3);

    /* A caller may have room for fewer bands, or want no statistics. */
    assert_int_equal(dpif_xdp_meter_get(&meters, id, &stats, 0), 0);
    assert_int_equal(stats.n_bands, 0);
    assert_int_equal(dpif_xdp_meter_get(&meters, id, NULL, 0), 0);

    /* Setting it again starts anew; deleting tells the last numbers. */
    assert_int_equal(set_meter(&meters, ID, OFPMF13_PKTPS, drop, 1), 0);
    assert_int_equal(run(&meters, ID, 3, 60, time_usec()), 1);
    assert_int_equal(dpif_xdp_meter_del(&meters, id, &stats, 1), 0);
    assert_int_equal(stats.packet_in_count, 3);
    assert_int_equal(band_stats[0].packet_count, 2);
    assert_int_equal(dpif_xdp_meter_get(&meters, id, &stats, 1), ENOENT);
    dpif_xdp_meters_destroy(&meters);
}

/* Threads that share a meter share its rate, while others change the table. */
#define N_THREADS 4
#define N_TURNS 2000
#define BURST 1000

struct worker {
    struct dpif_xdp_meters *meters;
    long long int now_us;
    size_t passed;
    pthread_t thread;
};

static void *
work(void *worker_)
{
    struct worker *worker = worker_;

    for (size_t i = 0; i < N_TURNS; i++) {
        worker->passed += run(worker->meters, ID, 4, 60, worker->now_us);
        run(worker->meters, ID + 1, 1, 60, worker->now_us);
    }
    return NULL;
}

static void
test_threads(void **state OVS_UNUSED)
{
    const struct ofputil_meter_band band = { .type = OFPMBT13_DROP, .rate = 1, .burst_size = BURST };
    ofproto_meter_id id = { .uint32 = ID }, other = { .uint32 = ID + 1 };
    struct ofputil_meter_band_stats band_stats;
    struct ofputil_meter_stats stats = { .bands = &band_stats };
    struct worker workers[N_THREADS];
    struct dpif_xdp_meters meters;
    size_t passed = 0;
    long long int now;

    dpif_xdp_meters_init(&meters);
    assert_int_equal(set_meter(&meters, ID, OFPMF13_PKTPS, &band, 1), 0);
    now = time_usec();
    for (size_t i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker) { .meters = &meters, .now_us = now };
        workers[i].thread = ovs_thread_create("worker", work, &workers[i]);
    }
    for (size_t i = 0; i < N_TURNS; i++) {
        assert_int_equal(set_meter(&meters, ID + 1, OFPMF13_PKTPS, &band, 1), 0);
        if (i % 2) {
            assert_int_equal(dpif_xdp_meter_del(&meters, other, NULL, 0), 0);
        }
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        xpthread_join(workers[i].thread, NULL);
        passed += workers[i].passed;
    }
    assert_int_equal(passed, BURST);
    assert_int_equal(dpif_xdp_meter_get(&meters, id, &stats, 1), 0);
    assert_int_equal(stats.packet_in_count, N_THREADS * N_TURNS * 4);
    assert_int_equal(band_stats.packet_count, N_THREADS * N_TURNS * 4 - BURST);
    dpif_xdp_meters_destroy(&meters);
}

/* A table of four places that one daemon after the other uses. */
#define N_SHARED 4

static void
begin(struct dpif_xdp_meters *meters, struct dp_meter *shared)
{
    dpif_xdp_meters_init(meters);
    dpif_xdp_meters_share(meters, shared, N_SHARED);
}

/* Sets meter 'openflow_id', a packet a second after a burst of 'burst', as 'id'; returns its place. */
static uint32_t
set_at(struct dpif_xdp_meters *meters, uint32_t id, uint32_t openflow_id, uint32_t burst)
{
    struct ofputil_meter_band band = { .type = OFPMBT13_DROP, .rate = 1, .burst_size = burst };
    struct ofputil_meter_config config
        = { .meter_id = openflow_id, .flags = OFPMF13_PKTPS, .n_bands = 1, .bands = &band };
    uint32_t slot = UINT32_MAX;

    assert_int_equal(dpif_xdp_meter_set(meters, (ofproto_meter_id) { .uint32 = id }, &config), 0);
    assert_true(dpif_xdp_meters_get_slot(meters, id, &slot));
    return slot;
}

static uint64_t
seen(const struct dpif_xdp_meters *meters, uint32_t id)
{
    struct ofputil_meter_stats stats;

    assert_int_equal(dpif_xdp_meter_get(meters, (ofproto_meter_id) { .uint32 = id }, &stats, 0), 0);
    return stats.packet_in_count;
}

static void
test_next_daemon_goes_on(void **state OVS_UNUSED)
{
    struct dp_meter shared[N_SHARED] = { { 0 } };
    struct dpif_xdp_meters meters;
    long long int now = time_usec();

    begin(&meters, shared);
    assert_int_equal(set_at(&meters, 0, 100, 5), 0);
    assert_int_equal(set_at(&meters, 1, 200, 5), 1);
    assert_int_equal(run(&meters, 0, 8, 60, now), 5);
    assert_int_equal(run(&meters, 1, 3, 60, now), 3);
    dpif_xdp_meters_destroy(&meters);

    /* Set in another order, they are where programs of the previous instance know them; one that is new is not. */
    begin(&meters, shared);
    assert_int_equal(set_at(&meters, 0, 300, 5), 2);
    assert_int_equal(set_at(&meters, 2, 200, 5), 1);
    assert_int_equal(set_at(&meters, 1, 100, 5), 0);
    assert_int_equal(run(&meters, 1, 1, 60, now), 0);
    assert_int_equal(run(&meters, 2, 3, 60, now), 2);
    assert_int_equal(run(&meters, 0, 1, 60, now), 1);
    assert_int_equal(seen(&meters, 1), 9);
    assert_int_equal(seen(&meters, 2), 6);
    assert_int_equal(seen(&meters, 0), 1);

    /* A meter that has gone on is as any other: changed, it starts anew where it is; deleted, it is forgotten. */
    assert_int_equal(set_at(&meters, 2, 200, 2), 1);
    assert_int_equal(run(&meters, 2, 3, 60, now), 2);
    assert_int_equal(dpif_xdp_meter_del(&meters, (ofproto_meter_id) { .uint32 = 1 }, NULL, 0), 0);
    assert_int_equal(set_at(&meters, 1, 100, 5), 0);
    assert_int_equal(seen(&meters, 1), 0);
    dpif_xdp_meters_destroy(&meters);
}

static void
test_next_daemon_forgets(void **state OVS_UNUSED)
{
    struct dp_meter shared[N_SHARED] = { { 0 } };
    struct dpif_xdp_meters meters;
    long long int now = time_usec();

    begin(&meters, shared);
    for (uint32_t id = 0; id < N_SHARED; id++) {
        set_at(&meters, id, 100 + id, 5);
        run(&meters, id, 4, 60, now);
    }
    dpif_xdp_meters_destroy(&meters);

    /* Another burst: another meter.  When no place is free, the one that it would have anyhow is given up. */
    begin(&meters, shared);
    assert_int_equal(set_at(&meters, 0, 100, 6), 0);
    assert_int_equal(seen(&meters, 0), 0);
    assert_int_equal(set_at(&meters, 3, 102, 5), 2);
    assert_int_equal(seen(&meters, 3), 4);

    /* Once no program before runs, this daemon still knows what has not come back; the next does not. */
    dpif_xdp_meters_taken_over(&meters);
    assert_int_equal(set_at(&meters, 1, 101, 5), 1);
    assert_int_equal(seen(&meters, 1), 4);
    dpif_xdp_meters_destroy(&meters);
    begin(&meters, shared);
    assert_int_equal(set_at(&meters, 2, 103, 5), 3);
    assert_int_equal(seen(&meters, 2), 0);
    dpif_xdp_meters_destroy(&meters);
}

/* Two bridges may have meters that look the same: each goes on where it is. */
static void
test_same_meter_twice(void **state OVS_UNUSED)
{
    struct dp_meter shared[N_SHARED] = { { 0 } };
    struct dpif_xdp_meters meters;
    long long int now = time_usec();

    begin(&meters, shared);
    set_at(&meters, 0, 1, 5);
    set_at(&meters, 1, 1, 5);
    run(&meters, 0, 1, 60, now);
    run(&meters, 1, 2, 60, now);
    dpif_xdp_meters_destroy(&meters);
    begin(&meters, shared);
    assert_int_equal(set_at(&meters, 1, 1, 5), 1);
    assert_int_equal(set_at(&meters, 0, 1, 5), 0);
    assert_int_equal(seen(&meters, 0), 1);
    assert_int_equal(seen(&meters, 1), 2);
    dpif_xdp_meters_destroy(&meters);
}

/* A meter that is set before there are programs takes what it counted there. */
static void
test_set_before_programs(void **state OVS_UNUSED)
{
    struct dp_meter shared[N_SHARED] = { { 0 } };
    const struct ofputil_meter_band band = { .type = OFPMBT13_DROP, .rate = 1, .burst_size = 5 };
    struct dpif_xdp_meters meters;
    long long int now = time_usec();
    uint32_t slot;

    begin(&meters, shared);
    assert_int_equal(set_at(&meters, 3, 0, 5), 3);
    run(&meters, 3, 4, 60, now);
    dpif_xdp_meters_destroy(&meters);
    dpif_xdp_meters_init(&meters);
    assert_int_equal(set_meter(&meters, 0, OFPMF13_PKTPS, &band, 1), 0);
    run(&meters, 0, 2, 60, now);
    assert_false(dpif_xdp_meters_get_slot(&meters, 0, &slot));
    dpif_xdp_meters_share(&meters, shared, N_SHARED);
    assert_true(dpif_xdp_meters_get_slot(&meters, 0, &slot));
    assert_int_equal(slot, 3);
    assert_int_equal(seen(&meters, 0), 6);
    assert_int_equal(run(&meters, 0, 3, 60, now), 1);
    dpif_xdp_meters_destroy(&meters);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_next_daemon_goes_on),
        cmocka_unit_test(test_next_daemon_forgets),
        cmocka_unit_test(test_same_meter_twice),
        cmocka_unit_test(test_set_before_programs),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
