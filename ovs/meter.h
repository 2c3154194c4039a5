/* SPDX-License-Identifier: Apache-2.0 */
/* Meters: token buckets that drop packets above a rate.
 *
 * Each meter has its own lock, so that threads meet only where they share a
 * meter.  Readers find meters under RCU. */
#ifndef DPIF_XDP_METER_H
#define DPIF_XDP_METER_H 1

#include "cmap.h"
#include "dpif-provider.h"
#include "ovs-thread.h"

struct dp_packet_batch;

struct dpif_xdp_meters {
    struct ovs_mutex mutex;             /* Held by writers. */
    struct cmap map;                    /* Of struct meter, by id. */
};

void dpif_xdp_meters_init(struct dpif_xdp_meters *);
void dpif_xdp_meters_destroy(struct dpif_xdp_meters *);

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

#endif /* ovs/meter.h */
