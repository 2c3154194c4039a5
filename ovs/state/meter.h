/* SPDX-License-Identifier: Apache-2.0 */
/* Meters: token buckets that drop packets above a rate.
 *
 * Programs and the engine charge the same buckets (dp/meter.h), in the
 * programs' tables; those that do not fit there are the engine's alone.
 * Readers find meters under RCU. */
#ifndef DPIF_XDP_METER_H
#define DPIF_XDP_METER_H 1

#include "cmap.h"
#include "dpif-provider.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"

struct dp_meter;
struct dp_packet_batch;

struct dpif_xdp_meters {
    struct ovs_mutex mutex;             /* Held by writers. */
    struct cmap map;                    /* Of struct meter, by id. */
    struct dp_meter *shared;            /* By id, with programs. */
    atomic_uint32_t n_shared;
};

void dpif_xdp_meters_init(struct dpif_xdp_meters *);
void dpif_xdp_meters_destroy(struct dpif_xdp_meters *);

/* Publishes meters 0 to 'n' - 1, with those that are set already, to programs
 * in 'shared', which must outlive the meters. */
void dpif_xdp_meters_share(struct dpif_xdp_meters *, struct dp_meter *shared,
                           uint32_t n);

/* Whether programs can use meter 'id'. */
bool dpif_xdp_meters_shares(const struct dpif_xdp_meters *, uint32_t id);

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
