/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of the process before counted: its tables of ports and of counters, pinned under names that end in a hash
 * of their layout.  They are adopted only by a process with the same: it goes on counting from there, for each device that it
 * takes over. */
#ifndef OXDP_BEFORE_H
#define OXDP_BEFORE_H 1

#include <stdint.h>

struct oxdp_attachment;
struct oxdp_progs;

/* Pins the tables for the process after this one.  0 or a negative errno. */
int oxdp_before_pin(const struct oxdp_progs *progs);

/* Maps those of the process before, if there are any with the same layout and size. */
void oxdp_before_open(struct oxdp_progs *progs);
void oxdp_before_close(struct oxdp_progs *progs);

/* The device of 'at' still runs a program of the process before: what that counted, and counts until
 * oxdp_before_end(), belongs to the port. */
void oxdp_before_adopt(struct oxdp_progs *progs, struct oxdp_attachment *at);

/* Brackets the moment from which our program runs on the device of 'at'.  The first puts what was counted into our counters,
 * where the process after this one finds it; the second keeps what was counted since. */
void oxdp_before_hand_on(struct oxdp_progs *progs, struct oxdp_attachment *at);
void oxdp_before_end(struct oxdp_progs *progs, struct oxdp_attachment *at);

/* Adds what was adopted for 'at' to 'sum'. */
void oxdp_before_add(const struct oxdp_progs *progs, const struct oxdp_attachment *at, uint64_t sum[]);

#endif /* core/programs/before.h */
