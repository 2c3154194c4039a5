/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that walk over all connections, in a thread of their own. */
#ifndef DPIF_XDP_CT_COMMANDS_H
#define DPIF_XDP_CT_COMMANDS_H 1

#include <stdint.h>

#include "unixctl.h"

struct ct_dpif_dump_state;
struct ct_dpif_entry;
struct ct_dpif_tuple;
struct dpif;

/* Takes the place of Open vSwitch's commands: if one of them is the 'name'
 * under which '*cb' with '*aux' is about to be registered, puts its own there.
 * For unixctl_command_register() of lib/unixctl.c. */
void dpif_xdp_ct_command_take(const char *name, unixctl_cb_func **cb,
                              void **aux);

/* Ends what commands began.  In the main thread, before a datapath goes. */
void dpif_xdp_ct_commands_end(void);

/* As dpif_xdp_ct_dump_next() and dpif_xdp_ct_flush(), for any thread: in that
 * of a command others may free memory meanwhile. */
int dpif_xdp_ct_command_dump_next(struct dpif *, struct ct_dpif_dump_state *,
                                  struct ct_dpif_entry *);
int dpif_xdp_ct_command_flush(struct dpif *, const uint16_t *zone,
                              const struct ct_dpif_tuple *);

#endif /* ovs/provider/ct_commands.h */
