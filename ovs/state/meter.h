/* SPDX-License-Identifier: Apache-2.0 */
/* Meters: token buckets that drop packets above a rate.
 *
 * Programs and the engine charge the same buckets (dp/meter.h), in the
 * programs' tables; those that do not fit there are the engine's alone.
 * Readers find meters under RCU.
 *
 * The programs' table outlives the process (core/programs/state.h).  A meter
 * that OpenFlow sets again, with the same number and the same bands, goes on
 * where it was: its buckets are as full, its statistics as large.  Open
 * vSwitch numbers the meters of a datapath anew; which place of the table a
 * meter has does not change by that, because programs of the previous instance
 * still run.  What is not set again before the next restart is forgotten. */
#ifndef DPIF_XDP_METER_H
#define DPIF_XDP_METER_H 1

#include "cmap.h"
#include "dpif-provider.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"
#include "ovs/base/locks.h"

struct dp_meter;
struct dp_packet_batch;

struct dpif_xdp_meters {
    struct ovs_mutex mutex;             /* dpif_xdp_meters_mutex: writers. */
    struct cmap map;                    /* Of struct meter, by id. */
    atomic_uint32_t n_shared;           /* Meters that programs can use. */
    atomic_uint32_t *slots;             /* By id, 'n_shared': its place. */

    /* The programs' table; its place i is still the meter of the previous
     * instance if left[i], 'n_left' of them. */
    struct dp_meter *shared OVS_GUARDED_BY(dpif_xdp_meters_mutex);
    bool *left OVS_GUARDED_BY(dpif_xdp_meters_mutex);
    uint32_t n_left OVS_GUARDED_BY(dpif_xdp_meters_mutex);
};

void dpif_xdp_meters_init(struct dpif_xdp_meters *);
void dpif_xdp_meters_destroy(struct dpif_xdp_meters *);

/* Publishes meters 0 to 'n' - 1, with those that are set already, to programs
 * in 'shared', which must outlive the meters.  Those that are in 'shared' and
 * active were of the previous instance. */
void dpif_xdp_meters_share(struct dpif_xdp_meters *, struct dp_meter *shared,
                           uint32_t n);

/* No program of the previous instance runs any more.  Those of its meters that
 * OpenFlow has not set again are hidden from the next daemon; this one still
 * knows them if they are set later. */
void dpif_xdp_meters_taken_over(struct dpif_xdp_meters *);

/* Where programs find meter 'id', which is set.  False: they cannot use it. */
bool dpif_xdp_meters_get_slot(const struct dpif_xdp_meters *, uint32_t id,
                              uint32_t *ret_slot);

/* As the members of struct dpif_class.  Set: EFBIG (id too large), EBADF
 * (unsupported flags), EINVAL (too many bands), ENODEV (unsupported band
 * type).  Get and delete: EFBIG, ENOENT. */
void dpif_xdp_meter_get_features(const struct dpif *,
                                 struct ofputil_meter_features *);
int dpif_xdp_meter_set(struct dpif_xdp_meters *, ofproto_meter_id,
                       struct ofputil_meter_config *);
int dpif_xdp_meter_get(const struct dpif_xdp_meters *, ofproto_meter_id,
                       struct ofputil_meter_stats *, uint16_t n_bands);
int dpif_xdp_meter_del(struct dpif_xdp_meters *, ofproto_meter_id,
                       struct ofputil_meter_stats *, uint16_t n_bands);

/* Counts the packets of 'batch' at meter 'id' and frees those above its rate.
 * 'now_us' is monotonic.  A meter that does not exist lets everything pass. */
void dpif_xdp_meter_run(struct dpif_xdp_meters *, struct dp_packet_batch *,
                        uint32_t id, long long int now_us);

#endif /* ovs/state/meter.h */
