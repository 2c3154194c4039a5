/* SPDX-License-Identifier: Apache-2.0 */
/* The way into a container that leaves out the host's end of its veth pair: a packet is put straight behind the other
 * end (bpf_redirect_peer()).  That saves a pass through a CPU's backlog, and passes by whatever stands at the host's end:
 * so it is taken only where nothing stands there. */
#ifndef OXDP_SHORTCUT_H
#define OXDP_SHORTCUT_H 1

#include <stdbool.h>
#include <stdint.h>

struct oxdp_shortcut {
    uint8_t address[6];         /* Ethernet address of the other end: only packets for it may go there. */
    uint32_t max_len;           /* Bytes, with the Ethernet header, that it takes; segmented later, more. */
};

/* Whether the kernel has shortcuts and counts what takes them. */
bool oxdp_shortcut_supported(void);

/* Looks whether what is sent through device 'ifname' may take a shortcut.  NULL if so, with '*ret_shortcut'; else why not,
 * in words.  core/kernel/watch.h tells when that may have changed.  The kernel sends no message about programs at tcx:
 * the caller looks for them (oxdp_tcx_has_egress()). */
const char *oxdp_shortcut_get(const char *ifname, struct oxdp_shortcut *ret_shortcut);

/* What the other end of 'ifname', a veth, has received: what was sent through 'ifname' and what took the shortcut, which the
 * counters of 'ifname' itself leave out.  False if there are no shortcuts, or if it cannot be asked. */
bool oxdp_shortcut_counts(const char *ifname, uint64_t *ret_packets, uint64_t *ret_bytes);

#endif /* core/kernel/shortcut.h */
