/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/state/meter.h"

#include <errno.h>

#include "core/kernel/grace.h"
#include "dp-packet.h"
#include "dp/seam_native.h"
#include "dp/meter.h"
#include "hash.h"
#include "openvswitch/ofp-meter.h"
#include "ovs-rcu.h"
#include "timeval.h"
#include "util.h"

#define MAX_METERS (1u << 18)
#define METER_FLAGS (OFPMF13_STATS | OFPMF13_PKTPS | OFPMF13_KBPS   \
                     | OFPMF13_BURST)

struct meter {
    struct cmap_node node;
    uint32_t id;
    struct dp_meter *state;             /* 'own', or one that programs use. */
    struct dp_meter own;
};

static void
meters_lock(struct dpif_xdp_meters *meters)
    OVS_ACQUIRES(dpif_xdp_meters_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&meters->mutex);
}

static void
meters_unlock(struct dpif_xdp_meters *meters)
    OVS_RELEASES(dpif_xdp_meters_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&meters->mutex);
}

static struct meter *
find_meter(const struct dpif_xdp_meters *meters, uint32_t id)
{
    struct meter *meter;

    CMAP_FOR_EACH_WITH_HASH (meter, node, hash_int(id, 0), &meters->map) {
        if (meter->id == id) {
            return meter;
        }
    }
    return NULL;
}

/* Lets programs that find 'meter' in their tables, and engine threads that
 * hold it, pass everything. */
static void
deactivate(struct dp_meter *meter)
{
    __atomic_store_n(&meter->active, 0, __ATOMIC_RELEASE);
    oxdp_grace(NULL);
}

/* Whether 'a' and 'b' are the same meter: both were made of the same OpenFlow
 * message. */
static bool
is_same(const struct dp_meter *a, const struct dp_meter *b)
{
    if (a->openflow_id != b->openflow_id || a->per_packet != b->per_packet
        || a->n_bands != b->n_bands || a->n_bands > DP_METER_BANDS) {
        return false;
    }
    for (uint32_t i = 0; i < a->n_bands; i++) {
        if (a->band[i].rate != b->band[i].rate
            || a->band[i].burst != b->band[i].burst
            || a->band[i].cost_ns16 != b->band[i].cost_ns16) {
            return false;
        }
    }
    return true;
}

static uint32_t
slot_of(const struct dpif_xdp_meters *meters, uint32_t id)
{
    uint32_t slot;

    atomic_read_relaxed(&meters->slots[id], &slot);
    return slot;
}

/* Gives meter 'id', which is not set, the place 'slot'; the meter that had
 * that, which is not set either, gets the one of 'id'. */
static void
give_slot(struct dpif_xdp_meters *meters, uint32_t id, uint32_t slot,
          uint32_t n)
    OVS_REQUIRES(dpif_xdp_meters_mutex)
{
    uint32_t mine = slot_of(meters, id);

    for (uint32_t i = 0; i < n; i++) {
        if (slot_of(meters, i) == slot) {
            atomic_store_relaxed(&meters->slots[i], mine);
        }
    }
    atomic_store_relaxed(&meters->slots[id], slot);
}

/* Gives meter 'id', which is not set, the place at which the previous instance
 * had it; false: it had not.  Preferably that where it is: meters of two
 * bridges can look the same. */
static bool
find_left(struct dpif_xdp_meters *meters, uint32_t id, uint32_t n,
          const struct dp_meter *config)
    OVS_REQUIRES(dpif_xdp_meters_mutex)
{
    uint32_t slot = slot_of(meters, id);

    for (uint32_t i = 0; meters->n_left && i < n; i++) {
        uint32_t candidate = (slot + i) % n;

        if (meters->left[candidate]
            && is_same(&meters->shared[candidate], config)) {
            give_slot(meters, id, candidate, n);
            return true;
        }
    }
    return false;
}

static void
forget_left(struct dpif_xdp_meters *meters, uint32_t slot)
    OVS_REQUIRES(dpif_xdp_meters_mutex)
{
    meters->n_left -= meters->left[slot];
    meters->left[slot] = false;
}

/* Gives meter 'id', which is not set, a place that no meter of the
 * previous instance has, if there is one. */
static void
avoid_left(struct dpif_xdp_meters *meters, uint32_t id, uint32_t n)
    OVS_REQUIRES(dpif_xdp_meters_mutex)
{
    for (uint32_t i = 0; meters->left[slot_of(meters, id)] && i < n; i++) {
        uint32_t slot = slot_of(meters, i);

        if (!meters->left[slot] && !find_meter(meters, i)) {
            give_slot(meters, id, slot, n);
        }
    }
    forget_left(meters, slot_of(meters, id));
}

/* Adds what a meter has counted until programs could use it. */
static void
add_counts(struct dp_meter *meter, const struct dp_meter *since)
{
    __sync_fetch_and_add(&meter->packets, since->packets);
    __sync_fetch_and_add(&meter->bytes, since->bytes);
    for (uint32_t i = 0; i < since->n_bands; i++) {
        __sync_fetch_and_add(&meter->band[i].packets, since->band[i].packets);
        __sync_fetch_and_add(&meter->band[i].bytes, since->band[i].bytes);
    }
}

/* The place in the programs' table of meter 'id', which is '*config', new
 * there or as the previous instance left it; 'old' is what it was until now,
 * if it was set. */
static struct dp_meter *
put_shared(struct dpif_xdp_meters *meters, uint32_t id, uint32_t n,
           const struct meter *old, const struct dp_meter *config)
    OVS_REQUIRES(dpif_xdp_meters_mutex)
{
    bool is_new = !old || old->state == &old->own;
    bool left = is_new && find_left(meters, id, n, config);
    struct dp_meter *state;

    if (is_new && !left) {
        avoid_left(meters, id, n);
    }
    state = &meters->shared[slot_of(meters, id)];
    if (left) {
        forget_left(meters, slot_of(meters, id));
        add_counts(state, config);
    } else {
        deactivate(state);
        *state = *config;
    }
    return state;
}

/* Makes '*config' meter 'id', in the programs' tables if it fits there. */
static void
put_meter(struct dpif_xdp_meters *meters, uint32_t id,
          const struct dp_meter *config)
    OVS_REQUIRES(dpif_xdp_meters_mutex)
{
    struct meter *old = find_meter(meters, id);
    struct meter *meter = xzalloc(sizeof *meter);
    uint32_t n;

    meter->id = id;
    atomic_read_relaxed(&meters->n_shared, &n);
    if (id < n) {
        meter->state = put_shared(meters, id, n, old, config);
    } else {
        meter->state = &meter->own;
        meter->own = *config;
    }
    __atomic_store_n(&meter->state->active, 1, __ATOMIC_RELEASE);
    if (old) {
        cmap_replace(&meters->map, &old->node, &meter->node, hash_int(id, 0));
        ovsrcu_postpone(free, old);
    } else {
        cmap_insert(&meters->map, &meter->node, hash_int(id, 0));
    }
}

void
dpif_xdp_meters_init(struct dpif_xdp_meters *meters)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared yet. */
{
    ovs_mutex_init(&meters->mutex);
    cmap_init(&meters->map);
    atomic_init(&meters->n_shared, 0);
    meters->slots = NULL;
    meters->shared = NULL;
    meters->left = NULL;
    meters->n_left = 0;
}

void
dpif_xdp_meters_destroy(struct dpif_xdp_meters *meters)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared any more. */
{
    struct meter *meter;

    CMAP_FOR_EACH (meter, node, &meters->map) {
        cmap_remove(&meters->map, &meter->node, hash_int(meter->id, 0));
        ovsrcu_postpone(free, meter);
    }
    cmap_destroy(&meters->map);
    ovs_mutex_destroy(&meters->mutex);
    free(meters->slots);
    free(meters->left);
}

void
dpif_xdp_meters_share(struct dpif_xdp_meters *meters, struct dp_meter *shared,
                      uint32_t n)
{
    struct meter *meter;

    meters_lock(meters);
    meters->shared = shared;
    meters->slots = xcalloc(n, sizeof *meters->slots);
    meters->left = xcalloc(n, sizeof *meters->left);
    for (uint32_t i = 0; i < n; i++) {
        atomic_init(&meters->slots[i], i);
        meters->left[i] = shared[i].active;
        meters->n_left += meters->left[i];
    }
    atomic_store(&meters->n_shared, n);
    CMAP_FOR_EACH (meter, node, &meters->map) {
        if (meter->id < n && meter->state == &meter->own) {
            const struct dp_meter config = meter->own;

            put_meter(meters, meter->id, &config);
        }
    }
    meters_unlock(meters);
}

void
dpif_xdp_meters_taken_over(struct dpif_xdp_meters *meters)
{
    uint32_t n;

    meters_lock(meters);
    atomic_read_relaxed(&meters->n_shared, &n);
    for (uint32_t i = 0; meters->n_left && i < n; i++) {
        if (meters->left[i]) {
            meters->shared[i].active = 0;
        }
    }
    meters_unlock(meters);
}

bool
dpif_xdp_meters_get_slot(const struct dpif_xdp_meters *meters, uint32_t id,
                         uint32_t *ret_slot)
{
    uint32_t n;

    atomic_read(&CONST_CAST(struct dpif_xdp_meters *, meters)->n_shared, &n);
    if (id >= n) {
        return false;
    }
    *ret_slot = slot_of(meters, id);
    return true;
}

void
dpif_xdp_meter_get_features(const struct dpif *dpif OVS_UNUSED,
                            struct ofputil_meter_features *features)
{
    features->max_meters = MAX_METERS;
    features->band_types = 1u << OFPMBT13_DROP;
    features->capabilities = METER_FLAGS;
    features->max_bands = DP_METER_BANDS;
    features->max_color = 0;
}

/* Fills '*band' from its rate, packets or kilobits a second, and burst,
 * packets or kilobits. */
static void
init_band(struct dp_meter_band *band, uint32_t rate, uint32_t burst,
          bool per_packet)
{
    unsigned int units = per_packet ? 1 : 1000 / 8;     /* A burst's. */

    memset(band, 0, sizeof *band);
    band->rate = rate;
    band->burst = (uint64_t) burst * units;
    if (rate) {
        band->cost_ns16 = (UINT64_C(1000000000) << 16) / units / rate;
        band->burst = (unsigned __int128) band->burst * band->cost_ns16 >> 16;
    }
}

int
dpif_xdp_meter_set(struct dpif_xdp_meters *meters, ofproto_meter_id id,
                   struct ofputil_meter_config *config)
{
    bool per_packet = (config->flags & OFPMF13_PKTPS) != 0;
    struct dp_meter meter = {
        .per_packet = per_packet,
        .openflow_id = config->meter_id,
    };

    if (id.uint32 >= MAX_METERS) {
        return EFBIG;
    } else if (config->flags & ~METER_FLAGS) {
        return EBADF;
    } else if (config->n_bands > DP_METER_BANDS) {
        return EINVAL;
    }
    for (size_t i = 0; i < config->n_bands; i++) {
        struct ofputil_meter_band *band = &config->bands[i];

        if (band->type != OFPMBT13_DROP) {
            return ENODEV;
        }
        /* Without a burst size, a second's worth. */
        if (!band->burst_size) {
            band->burst_size = band->rate;
        }
        init_band(&meter.band[i], band->rate, band->burst_size, per_packet);
    }
    meter.n_bands = config->n_bands;

    meters_lock(meters);
    put_meter(meters, id.uint32, &meter);
    meters_unlock(meters);
    return 0;
}

int
dpif_xdp_meter_get(const struct dpif_xdp_meters *meters, ofproto_meter_id id,
                   struct ofputil_meter_stats *stats, uint16_t n_bands)
{
    const struct meter *meter;

    if (id.uint32 >= MAX_METERS) {
        return EFBIG;
    }
    meter = find_meter(meters, id.uint32);
    if (!meter) {
        return ENOENT;
    }
    if (stats) {
        const struct dp_meter *state = meter->state;

        stats->packet_in_count = state->packets;
        stats->byte_in_count = state->bytes;
        stats->n_bands = MIN(n_bands, state->n_bands);
        for (size_t i = 0; i < stats->n_bands; i++) {
            stats->bands[i].packet_count = state->band[i].packets;
            stats->bands[i].byte_count = state->band[i].bytes;
        }
    }
    return 0;
}

int
dpif_xdp_meter_del(struct dpif_xdp_meters *meters, ofproto_meter_id id,
                   struct ofputil_meter_stats *stats, uint16_t n_bands)
{
    int error;

    meters_lock(meters);
    error = dpif_xdp_meter_get(meters, id, stats, n_bands);
    if (!error) {
        struct meter *meter = find_meter(meters, id.uint32);

        if (meter->state != &meter->own) {
            deactivate(meter->state);
        }
        cmap_remove(&meters->map, &meter->node, hash_int(id.uint32, 0));
        ovsrcu_postpone(free, meter);
    }
    meters_unlock(meters);
    return error;
}

void
dpif_xdp_meter_run(struct dpif_xdp_meters *meters,
                   struct dp_packet_batch *batch, uint32_t id,
                   long long int now_us)
{
    struct meter *meter = find_meter(meters, id);
    size_t n = dp_packet_batch_size(batch), i;
    struct dp_packet *packet;

    if (!meter) {
        return;
    }
    DP_PACKET_BATCH_REFILL_FOR_EACH (i, n, packet, batch) {
        if (dp_meter_charge(meter->state, dp_packet_size(packet),
                            now_us * 1000)) {
            dp_packet_delete(packet);
        } else {
            dp_packet_batch_add(batch, packet);
        }
    }
}
