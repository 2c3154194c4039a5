/* SPDX-License-Identifier: Apache-2.0 */
/* What ofproto's revalidators do besides dumping flows: they are told to
 * revalidate, and sweep over what they know of flows.  ovs/flows/round.c says
 * when a sweep finds nothing to do. */
#include <config.h>

#include "cmap.h"
#include "ofproto/ofproto-dpif-upcall.h"
#include "ofproto/ofproto-dpif-xlate-cache.h"
#include "openvswitch/thread.h"
#include "ovs/flows/flows.h"

void __real_udpif_revalidate(struct udpif *);
void __wrap_udpif_revalidate(struct udpif *);
struct cmap_cursor dpif_xdp_sweep_start(const struct cmap *);
const struct cmap_node *dpif_xdp_ukey_find(const struct cmap *, uint32_t hash);
int dpif_xdp_ukey_trylock(const struct ovs_mutex *, const char *where);
void dpif_xdp_ukey_push(struct xlate_cache *, struct dpif_flow_stats *,
                        bool offloaded);

/* Instead of udpif_revalidate().  A round that begins while this runs may
 * still be one of before: so the next must be complete, too. */
void
__wrap_udpif_revalidate(struct udpif *udpif)
{
    dpif_xdp_round_want();
    __real_udpif_revalidate(udpif);
    dpif_xdp_round_want();
}

/* Instead of cmap_cursor_start() in ofproto/ofproto-dpif-upcall.c. */
struct cmap_cursor
dpif_xdp_sweep_start(const struct cmap *ukeys)
{
    return (dpif_xdp_round_is_quiet() ? (struct cmap_cursor) { .node = NULL }
            : cmap_cursor_start(ukeys));
}

/* Instead of cmap_find(), ovs_mutex_trylock_at() and xlate_push_stats() in the
 * same file. */
const struct cmap_node *
dpif_xdp_ukey_find(const struct cmap *ukeys, uint32_t hash)
{
    dpif_xdp_ahead_note_find(ukeys, hash);
    return cmap_find(ukeys, hash);
}

int
dpif_xdp_ukey_trylock(const struct ovs_mutex *mutex, const char *where)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    dpif_xdp_ahead_note_lock(mutex);
    return ovs_mutex_trylock_at(mutex, where);
}

void
dpif_xdp_ukey_push(struct xlate_cache *xcache, struct dpif_flow_stats *stats,
                   bool offloaded)
{
    if (xcache) {
        dpif_xdp_ahead_note_push(xcache, xcache->entries.data);
    }
    xlate_push_stats(xcache, stats, offloaded);
}
