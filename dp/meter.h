/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Meters: token buckets kept as points in time (the generic cell rate algorithm, ITU-T I.371), which one
 * compare-and-swap updates.  The programs and the engine charge the same ones. */
#ifndef DP_METER_H
#define DP_METER_H 1

#include "dp/frame.h"
#include "dp/table.h"

#define DP_METER_TRIES 8        /* Against other CPUs; then the packet is not charged. */

/* Added to the time, so that buckets begin full however short the machine has been up. */
#define DP_METER_EPOCH (1ull << 62)

DP_STAGE int dp_meter_band_exceeds(struct dp_meter_band *band, __u64 units, __u64 now);

/* Charges a packet of 'len' bytes at 'now', nanoseconds of CLOCK_MONOTONIC.  Returns whether it must be dropped. */
DP_INLINE int dp_meter_charge(struct dp_meter *meter, __u32 len, __u64 now)
{
    struct dp_meter_band *worst = 0;
    __u64 units;

    if (!DP_READ_FIRST(meter->active)) {
        return 0;
    }
    units = meter->per_packet ? 1 : len;
    __sync_fetch_and_add(&meter->packets, 1);
    __sync_fetch_and_add(&meter->bytes, len);
    for (__u32 i = 0; i < DP_METER_BANDS && i < meter->n_bands; i++) {
        struct dp_meter_band *band = &meter->band[i];

        /* Of several, the one with the highest rate counts the drop (OpenFlow 1.5, 5.7.1). */
        if (dp_meter_band_exceeds(band, units, now + DP_METER_EPOCH) && (!worst || band->rate > worst->rate)) {
            worst = band;
        }
    }
    if (worst) {
        __sync_fetch_and_add(&worst->packets, 1);
        __sync_fetch_and_add(&worst->bytes, len);
    }
    return worst != 0;
}

/* Charges 'units' packets or bytes to one band, if it has enough tokens.  Returns true if it has not.  A band without
 * a rate is never refilled: 'next' counts what it let pass. */
DP_STAGE int dp_meter_band_exceeds(struct dp_meter_band *band, __u64 units, __u64 now)
{
    if (!band) {
        return 0;
    }

    int refilled = band->rate != 0;
    __u64 earliest = refilled ? now - band->burst : 0;
    __u64 latest = refilled ? now : band->burst;
    __u64 cost = refilled ? units * band->cost_ns16 >> 16 : units;

    for (int i = 0; i < DP_METER_TRIES; i++) {
        __u64 next = DP_READ_ONCE(band->next);
        __u64 charged = (next > earliest ? next : earliest) + cost;

        if (charged > latest) {
            return 1;
        }
        if (__sync_val_compare_and_swap(&band->next, next, charged) == next) {
            return 0;
        }
    }
    return 0;
}

/* As dp_meter_charge() of meter 'index'.  An absent meter passes everything, as in Open vSwitch. */
DP_INLINE int dp_meter_drops(struct dp_ctx *ctx, const struct dp_frame *frame, __u32 index)
{
    struct dp_meter *meter = dp_meters_at(ctx, index);

    return meter && dp_meter_charge(meter, frame->len, dp_now(ctx));
}

#endif /* dp/meter.h */
