/* SPDX-License-Identifier: Apache-2.0 */
/* What flows need of a program, in the terms of dp/omit.h.  A specialised program omits the rest. */
#ifndef OXDP_NEED_H
#define OXDP_NEED_H 1

#include <stdbool.h>
#include <stdint.h>

#include "dp/omit.h"

struct oxdp_flow;
struct oxdp_table;

struct oxdp_needs {             /* As struct dp_omit, with the opposite meaning. */
    uint32_t parts;
    uint64_t words;
    uint64_t ops;
};

/* Of one flow. */
struct oxdp_needs oxdp_needs_of_flow(const struct oxdp_flow *flow);

/* Of all flows in the table.  If these change meanwhile, the result is approximate.  Needs no lock. */
struct oxdp_needs oxdp_needs_of_table(const struct oxdp_table *table);

/* Adds what operations and recirculation imply, after all flows were added. */
void oxdp_needs_close(struct oxdp_needs *needs);

void oxdp_needs_add(struct oxdp_needs *needs, const struct oxdp_needs *more);
struct dp_omit oxdp_needs_complement(const struct oxdp_needs *needs);
bool oxdp_needs_met(const struct oxdp_needs *needs, const struct dp_omit *omit);

#endif /* core/tables/need.h */
