/* SPDX-License-Identifier: Apache-2.0 */
/* Programs over the maps of a datapath: core/programs/load.c. */
#ifndef OXDP_LOAD_H
#define OXDP_LOAD_H 1

#include <pthread.h>
#include <stdbool.h>

struct dp_capability;
struct dp_omit;
struct oxdp_constants;
struct oxdp_program;
struct oxdp_progs;

/* Loads 'program' over the maps, with 'constants' and without what 'omit' says.  0, with a file descriptor, what it can
 * do, and whether it takes multi-buffer frames (core/multi_buffer.h); or a negative errno with a sentence in
 * '*ret_error'.  Any thread. */
int oxdp_program_load(const struct oxdp_progs *progs, const struct oxdp_program *program,
                      const struct oxdp_constants *constants, const struct dp_omit *omit, int *ret_fd,
                      struct dp_capability *ret_capability, bool *ret_multi_buffer, char **ret_error);

/* Waits for the end of 'thread', whose programs nobody wants any more.  What the kernel verifies for it, which takes up
 * to a second of CPU time for each program and many seconds on a busy machine, is broken off.  One thread at a time. */
void oxdp_load_give_up(pthread_t thread);

#endif /* core/programs/load.h */
