/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "meter.h"

#include <errno.h>

#include "dp-packet.h"
#include "hash.h"
#include "openvswitch/ofp-meter.h"
#include "ovs-rcu.h"
#include "timeval.h"
#include "util.h"

#define MAX_METERS (1u << 18)
#define MAX_BANDS 8
#define METER_FLAGS (OFPMF13_STATS | OFPMF13_PKTPS | OFPMF13_KBPS   \
                     | OFPMF13_BURST)

/* A token bucket.  A token is a millionth of a packet or a thousandth of a
 * bit, so that 'rate' tokens come each microsecond. */
struct band {
    uint64_t rate;                      /* Packets/s or kbit/s. */
    uint64_t size;                      /* Tokens. */
    uint64_t tokens;
    uint64_t n_packets, n_bytes;        /* Dropped. */
};

struct meter {
    struct cmap_node node;
    uint32_t id;
    bool per_packet;
    struct ovs_mutex mutex;             /* Guards what follows. */
    long long int used;                 /* Microseconds. */
    uint64_t n_packets, n_bytes;        /* Seen. */
    size_t n_bands;
    struct band bands[];
};

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

static void
free_meter(struct meter *meter)
{
    ovs_mutex_destroy(&meter->mutex);
    free(meter);
}

static void
remove_meter(struct dpif_xdp_meters *meters, uint32_t id)
    OVS_REQUIRES(meters->mutex)
{
    struct meter *meter = find_meter(meters, id);

    if (meter) {
        cmap_remove(&meters->map, &meter->node, hash_int(id, 0));
        ovsrcu_postpone(free_meter, meter);
    }
}

void
dpif_xdp_meters_init(struct dpif_xdp_meters *meters)
{
    ovs_mutex_init(&meters->mutex);
    cmap_init(&meters->map);
}

void
dpif_xdp_meters_destroy(struct dpif_xdp_meters *meters)
{
    struct meter *meter;

    ovs_mutex_lock(&meters->mutex);
    CMAP_FOR_EACH (meter, node, &meters->map) {
        remove_meter(meters, meter->id);
    }
    ovs_mutex_unlock(&meters->mutex);
    cmap_destroy(&meters->map);
    ovs_mutex_destroy(&meters->mutex);
}

void
dpif_xdp_meter_get_features(const struct dpif *dpif OVS_UNUSED,
                            struct ofputil_meter_features *features)
{
    features->max_meters = MAX_METERS;
    features->band_types = 1u << OFPMBT13_DROP;
    features->capabilities = METER_FLAGS;
    features->max_bands = MAX_BANDS;
    features->max_color = 0;
}

int
dpif_xdp_meter_set(struct dpif_xdp_meters *meters, ofproto_meter_id id_,
                   struct ofputil_meter_config *config)
{
    uint32_t id = id_.uint32;
    struct meter *meter;

    if (id >= MAX_METERS) {
        return EFBIG;
    } else if (config->flags & ~METER_FLAGS) {
        return EBADF;
    } else if (config->n_bands > MAX_BANDS) {
        return EINVAL;
    }
    for (size_t i = 0; i < config->n_bands; i++) {
        if (config->bands[i].type != OFPMBT13_DROP) {
            return ENODEV;
        }
    }

    meter = xzalloc(sizeof *meter + config->n_bands * sizeof *meter->bands);
    meter->id = id;
    meter->per_packet = (config->flags & OFPMF13_PKTPS) != 0;
    ovs_mutex_init(&meter->mutex);
    meter->used = time_usec();
    meter->n_bands = config->n_bands;
    for (size_t i = 0; i < meter->n_bands; i++) {
        struct ofputil_meter_band *from = &config->bands[i];
        struct band *band = &meter->bands[i];

        /* Without a burst size, a second's worth. */
        if (!from->burst_size) {
            from->burst_size = from->rate;
        }
        band->rate = from->rate;
        band->size = from->burst_size * UINT64_C(1000000);
        band->tokens = band->size;
    }

    ovs_mutex_lock(&meters->mutex);
    remove_meter(meters, id);
    cmap_insert(&meters->map, &meter->node, hash_int(id, 0));
    ovs_mutex_unlock(&meters->mutex);
    return 0;
}

int
dpif_xdp_meter_get(const struct dpif_xdp_meters *meters, ofproto_meter_id id,
                   struct ofputil_meter_stats *stats, uint16_t n_bands)
{
    struct meter *meter;

    if (id.uint32 >= MAX_METERS) {
        return EFBIG;
    }
    meter = find_meter(meters, id.uint32);
    if (!meter) {
        return ENOENT;
    }
    if (stats) {
        ovs_mutex_lock(&meter->mutex);
        stats->packet_in_count = meter->n_packets;
        stats->byte_in_count = meter->n_bytes;
        stats->n_bands = MIN(n_bands, meter->n_bands);
        for (size_t i = 0; i < stats->n_bands; i++) {
            stats->bands[i].packet_count = meter->bands[i].n_packets;
            stats->bands[i].byte_count = meter->bands[i].n_bytes;
        }
        ovs_mutex_unlock(&meter->mutex);
    }
    return 0;
}

int
dpif_xdp_meter_del(struct dpif_xdp_meters *meters, ofproto_meter_id id,
                   struct ofputil_meter_stats *stats, uint16_t n_bands)
{
    int error;

    ovs_mutex_lock(&meters->mutex);
    error = dpif_xdp_meter_get(meters, id, stats, n_bands);
    if (!error) {
        remove_meter(meters, id.uint32);
    }
    ovs_mutex_unlock(&meters->mutex);
    return error;
}

/* Adds the tokens of 'elapsed' microseconds. */
static void
fill_band(struct band *band, uint64_t elapsed)
{
    uint64_t missing = band->size - band->tokens;

    /* The comparison avoids that the product overflows. */
    if (band->rate && elapsed > missing / band->rate) {
        band->tokens = band->size;
    } else {
        band->tokens += elapsed * band->rate;
    }
}

/* Takes a packet that costs 'cost' tokens from all bands of 'meter'.  Returns
 * the band that drops it: of those without enough tokens, the one with the
 * highest rate (OpenFlow 1.5, 5.7.1), or NULL. */
static struct band *
drain_bands(struct meter *meter, uint64_t cost)
{
    struct band *exceeded = NULL;

    for (size_t i = 0; i < meter->n_bands; i++) {
        struct band *band = &meter->bands[i];

        if (band->tokens >= cost) {
            band->tokens -= cost;
        } else if (!exceeded || band->rate > exceeded->rate) {
            exceeded = band;
        }
    }
    return exceeded;
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

    ovs_mutex_lock(&meter->mutex);
    /* Another thread may have come with a later time. */
    if (now_us > meter->used) {
        for (i = 0; i < meter->n_bands; i++) {
            fill_band(&meter->bands[i], now_us - meter->used);
        }
        meter->used = now_us;
    }
    DP_PACKET_BATCH_REFILL_FOR_EACH (i, n, packet, batch) {
        uint32_t size = dp_packet_size(packet);
        struct band *band;

        meter->n_packets++;
        meter->n_bytes += size;
        band = drain_bands(meter, (meter->per_packet ? UINT64_C(1000000)
                                   : size * UINT64_C(8000)));
        if (band) {
            band->n_packets++;
            band->n_bytes += size;
            dp_packet_delete(packet);
        } else {
            dp_packet_batch_refill(batch, packet, i);
        }
    }
    ovs_mutex_unlock(&meter->mutex);
}
