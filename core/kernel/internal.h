/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces through which the host itself takes part in a switch.
 *
 * Each is a veth pair.  One end has the interface's name and belongs to the host: it may have addresses, another name,
 * another network namespace.  Its peer stays here and is for the switch.  The peer's name is derived from the
 * interface's, and its alias says what it is, so that a later process recognizes it:
 *
 *     host -- br0 ======== br0-xdp -- switch
 */
#ifndef OXDP_INTERNAL_H
#define OXDP_INTERNAL_H 1

#include <net/if.h>
#include <stdbool.h>

/* Whether this process can make such interfaces on this kernel.  If not, '*ret_why' is a sentence (malloc'd). */
bool oxdp_internal_supported(char **ret_why);

/* The name of the switch's end of interface 'name'. */
void oxdp_internal_device(const char *name, char ret_device[IF_NAMESIZE]);

/* Makes interface 'name', down and without addresses, and the switch's end, which is up.  If they exist, because a
 * previous instance made them, they stay as they are, wherever the host's end is now.  0, or a negative errno with a
 * sentence in '*ret_error' (malloc'd). */
int oxdp_internal_create(const char *name, char **ret_error);

/* Removes interface 'name', wherever it is now.  Nothing if it does not exist. */
void oxdp_internal_delete(const char *name);

/* Removes all interfaces for which 'keep' is false, and returns how many that were. */
unsigned int oxdp_internal_sweep(bool (*keep)(const char *name));

#endif /* core/kernel/internal.h */
