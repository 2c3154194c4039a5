/* SPDX-License-Identifier: Apache-2.0 */
/* Connection tracking in programs: the operation CT of dp/op.h, over the tables of connections (core/ct/ct.h).
 *
 * Programs have the addresses of the tables in their instructions, so they are loaded when there are tables: those of
 * the previous instance before the first programs (struct oxdp_progs_config, 'before_load'), others when the first
 * packet meets ct().  Then a thread loads all programs once more, which takes about a second; ports keep the programs
 * that they have until then, and get the new ones each from one packet to the next.
 *
 * All functions are for control, one thread at a time. */
#ifndef OXDP_TRACK_H
#define OXDP_TRACK_H 1

#include <stdbool.h>

struct oxdp_ct;
struct oxdp_progs;

/* Has programs that are loaded later be over the tables of 'ct', which are maps and live as long as 'progs'.  Only
 * before there are programs. */
void oxdp_track_set(struct oxdp_progs *progs, const struct oxdp_ct *ct);

/* Whether all programs are over the tables of connections, but those that the kernel refuses so. */
bool oxdp_track_is_on(const struct oxdp_progs *progs);

/* Begins to load programs over the tables of 'ct', as above.  The thread calls 'done' at its end.  Then, and not
 * before, oxdp_track_end() is due.  0 or a negative errno. */
int oxdp_track_begin(struct oxdp_progs *progs, const struct oxdp_ct *ct, void (*done)(void *aux), void *aux);

/* Whether the thread runs, or has ended and oxdp_track_end() is due. */
bool oxdp_track_has_begun(const struct oxdp_progs *progs);
bool oxdp_track_is_done(const struct oxdp_progs *progs);

/* Gives ports the programs, whose capabilities have CT now.  0; or a negative errno with a sentence in '*ret_error'
 * (malloc'd), and nothing has changed.  A program of a user that does not load over the tables stays as it is. */
int oxdp_track_end(struct oxdp_progs *progs, char **ret_error);

/* Ends the thread, if it runs, and gives up what it loaded. */
void oxdp_track_stop(struct oxdp_progs *progs);

#endif /* core/programs/track.h */
