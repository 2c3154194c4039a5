/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of the provider "ovs_xdp" for tracers: a "nop" each, and a note in the ELF.  docs/reference/probes.md has
 * all. */
#ifndef OXDP_PROBE_H
#define OXDP_PROBE_H 1

#ifdef OXDP_USDT
#include <sys/sdt.h>
#define OXDP_PROBE2(NAME, A, B) DTRACE_PROBE2(ovs_xdp, NAME, A, B)
#else
#define OXDP_PROBE2(NAME, A, B) ((void) (A), (void) (B))
#endif

#endif /* core/probe.h */
