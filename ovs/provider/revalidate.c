/* SPDX-License-Identifier: Apache-2.0 */
/* What ofproto's revalidators do besides dumping flows: they are told to
 * revalidate, and sweep over what they know of flows.  ovs/flows/round.c says
 * when a sweep finds nothing to do. */
#include <config.h>

#include "cmap.h"
#include "ofproto/ofproto-dpif-upcall.h"
#include "ovs/flows/flows.h"

void __real_udpif_revalidate(struct udpif *);
void __wrap_udpif_revalidate(struct udpif *);
struct cmap_cursor dpif_xdp_sweep_start(const struct cmap *);

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
