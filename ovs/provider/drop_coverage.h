/* SPDX-License-Identifier: Apache-2.0 */
/* Drops of a datapath among Open vSwitch's coverage counters. */
#ifndef DPIF_XDP_COVERAGE_H
#define DPIF_XDP_COVERAGE_H 1

#include "ovs/base/locks.h"

struct dpif_xdp_coverage;
struct dpif_xdp_dp;

/* What was counted of a datapath so far: member 'coverage' of it. */
struct dpif_xdp_coverage *dpif_xdp_coverage_create(void);
void dpif_xdp_coverage_destroy(struct dpif_xdp_coverage *);

/* Count what the engine, or programs, dropped since the last call.  The second
 * reads the statistics of all flows that drop: to be called about once a
 * second, with dpif_xdp_flow_lock().  Main thread only. */
void dpif_xdp_coverage_count_engine(const struct dpif_xdp_dp *);
void dpif_xdp_coverage_count_programs(const struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

#endif /* ovs/provider/drop_coverage.h */
