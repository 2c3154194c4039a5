/* SPDX-License-Identifier: Apache-2.0 */
/* The pins of the tables of connections (core/ct/ct.h), which are made later than the others.  Each is a table of state
 * (core/programs/state.h) by the name "state-ct_<name>-<layout>", with the rule "adopt".  Beside them is
 * "state-ct_layout-<layout>", the BTF that has their types: by that a version with another layout reads them. */
#ifndef OXDP_CT_PINS_H
#define OXDP_CT_PINS_H 1

#include "core/ct/ct.h"

struct oxdp_progs;

/* Opens the tables of the previous instance: 'fd' gets file descriptors for the caller to close.  0: they have our
 * layout; 1: another, which is in 'layout'; -ENOENT if it left none, -ESTALE if it cannot be told what they mean; or
 * another negative errno.  Not after oxdp_progs_take_over(). */
int oxdp_ct_pins_open_old(const struct oxdp_progs *, int fd[OXDP_CT_N_TABLES],
                          struct oxdp_ct_layout layout[OXDP_CT_N_TABLES]);

/* Pins 'ct', unless the pins are 'ct's already because it was adopted.  0 or a negative errno; then none of them is
 * pinned. */
int oxdp_ct_pins_add(const struct oxdp_progs *, const struct oxdp_ct *);

#endif /* core/programs/ct_pins.h */
