/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The meter operation: token buckets kept as points in time (the generic cell rate algorithm, ITU-T I.371), which one
 * compare-and-swap updates. */
#ifndef DP_METER_H
#define DP_METER_H 1

#include "dp/frame.h"
#include "dp/table.h"

#define DP_METER_TRIES 8        /* Against other CPUs; then the packet is not charged. */

/* Charges one band.  Returns whether the packet exceeds it. */
DP_INLINE int dp_meter_band_exceeded(struct dp_meter_band *band, __u64 cost, __u64 now)
{
    __u64 earliest = now > band->burst_ns ? now - band->burst_ns : 0;

    for (int i = 0; i < DP_METER_TRIES; i++) {
        __u64 next = DP_READ_ONCE(band->next);
        __u64 charged = (next > earliest ? next : earliest) + cost;

        if (charged > now) {
            return 1;
        }
        if (__sync_val_compare_and_swap(&band->next, next, charged) == next) {
            return 0;
        }
    }
    return 0;
}

/* Returns whether the meter drops the packet.  An absent meter passes everything, as in Open vSwitch. */
DP_INLINE int dp_meter_drops(struct dp_ctx *ctx, const struct dp_frame *frame, __u32 index)
{
    struct dp_meter *meter = dp_meters_at(ctx, index);
    __u64 now;
    struct dp_meter_band *worst = 0;
    __u64 worst_cost = 0;

    if (!meter || !meter->n_bands) {
        return 0;
    }
    now = dp_now(ctx);
    __sync_fetch_and_add(&meter->packets, 1);
    __sync_fetch_and_add(&meter->bytes, frame->len);
    DP_WRITE_ONCE(meter->used, now);

    for (__u32 i = 0; i < DP_METER_BANDS && i < meter->n_bands; i++) {
        struct dp_meter_band *band = &meter->band[i];
        __u64 units = meter->per_packet ? 1 : frame->len;

        /* The band with the highest rate, so the least cost, counts the drop. */
        if (dp_meter_band_exceeded(band, units * band->cost_ns16 >> 16, now)
            && (!worst || band->cost_ns16 < worst_cost)) {
            worst = band;
            worst_cost = band->cost_ns16;
        }
    }
    if (worst) {
        __sync_fetch_and_add(&worst->packets, 1);
        __sync_fetch_and_add(&worst->bytes, frame->len);
    }
    return worst != 0;
}

#endif /* dp/meter.h */
