/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of the previous instance: its tables of ports and of counters (OXDP_RESTART_READ of
 * core/programs/state.h).  This process goes on from these numbers for each device that it takes over. */
#ifndef OXDP_BEFORE_H
#define OXDP_BEFORE_H 1

#include <stdbool.h>
#include <stdint.h>

#include "bpf/constant.h"

struct oxdp_attachment;
struct oxdp_progs;

/* Maps the previous instance's tables, if there are all of them with the same layout and size. */
void oxdp_before_open(struct oxdp_progs *progs);
void oxdp_before_close(struct oxdp_progs *progs);

/* Whether table 'i' is mapped. */
bool oxdp_before_has(const struct oxdp_progs *progs, enum bpf_table i);

/* The device of 'at' still runs a program of the previous instance.  What that counts until oxdp_before_end() belongs
 * to the port. */
void oxdp_before_adopt(struct oxdp_progs *progs, struct oxdp_attachment *at);

/* Call these before and after our program is put on the device of 'at'.  The first adds the adopted numbers to our
 * counters, where the next instance finds them.  The second adds what was counted meanwhile. */
void oxdp_before_hand_on(struct oxdp_progs *progs, struct oxdp_attachment *at);
void oxdp_before_end(struct oxdp_progs *progs, struct oxdp_attachment *at);

/* Adds what was adopted for 'at' to 'sum'. */
void oxdp_before_add(const struct oxdp_progs *progs, const struct oxdp_attachment *at, uint64_t sum[]);

#endif /* core/programs/before.h */
