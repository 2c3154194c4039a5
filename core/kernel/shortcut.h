/* SPDX-License-Identifier: Apache-2.0 */
/* Peer redirect ("shortcut" in names): bpf_redirect_peer() moves a packet into a container without the host's end of
 * the veth pair.  That saves a pass through a CPU's backlog.  It bypasses qdiscs, filters and captures on the host's
 * end: so it is used only where there are none. */
#ifndef OXDP_SHORTCUT_H
#define OXDP_SHORTCUT_H 1

#include <stdbool.h>
#include <stdint.h>

struct oxdp_shortcut {
    uint8_t address[6];         /* Ethernet address of the peer: only packets for it may go there. */
    uint32_t max_len;           /* Bytes, with the Ethernet header, of a packet without GSO. */
};

/* Whether the kernel has bpf_redirect_peer() and counts what it moves. */
bool oxdp_shortcut_supported(void);

/* Whether packets for device 'ifname' may be redirected into its peer.  Returns NULL if so, with '*ret_shortcut'; else
 * the reason, in words.  core/kernel/watch.h reports when that may have changed.  The kernel sends no message about
 * programs at tcx: the caller looks for them (oxdp_tcx_has_egress()). */
const char *oxdp_shortcut_get(const char *ifname, struct oxdp_shortcut *ret_shortcut);

/* What the peer of the veth 'ifname' has received: through 'ifname', and by peer redirect, which the counters of
 * 'ifname' lack.  False if there is no peer redirect, or if the kernel does not answer. */
bool oxdp_shortcut_counts(const char *ifname, uint64_t *ret_packets, uint64_t *ret_bytes);

#endif /* core/kernel/shortcut.h */
