/* SPDX-License-Identifier: Apache-2.0 */
/* Programs, links and maps of a datapath that outlive the process: pinned in
 *
 *     /sys/fs/bpf/ovs-xdp/<inode of the network namespace>/<datapath>/
 *
 * root-only, so that known flows keep flowing when the process ends, however it ends.  The process that has
 * the folder holds a lock (flock) on it.  The links that a process before left there, the programs of its filters and
 * the maps that may be adopted move to the folder "old" in it, and the programs work on until the new one has taken
 * them over, or has said that it needs no more of them.  Folders of namespaces that are gone are removed by whoever
 * comes.  The layout's version is in the pinned map of struct dp_head. */
#ifndef OXDP_PIN_H
#define OXDP_PIN_H 1

#include <stdbool.h>

/* How the names of pinned maps begin that the process after this one may adopt. */
#define OXDP_PINS_STATE "state-"

struct oxdp_pins;

/* Takes the folder of datapath 'name' in the present network namespace; mounts bpffs if it is missing.  0,
 * or a negative errno with a sentence in '*ret_error' (malloc'd): -EBUSY when another process has the
 * folder. */
int oxdp_pins_open(const char *name, struct oxdp_pins **ret_pins, char **ret_error);

/* Removes the folder and what is in it, which lives on as long as its file descriptors.  NULL is allowed. */
void oxdp_pins_close(struct oxdp_pins *pins);

/* The folder; NULL for NULL. */
const char *oxdp_pins_folder(const struct oxdp_pins *pins);

/* Pins what 'fd' stands for; dots in 'name' become '_'.  0, or a negative errno.  With NULL for 'pins'
 * nothing happens. */
int oxdp_pins_add(struct oxdp_pins *pins, const char *name, int fd);
void oxdp_pins_remove(struct oxdp_pins *pins, const char *name);

/* The link that the process before pinned as 'name' is this one's from now on, under the same name.  Returns
 * its file descriptor, or -ENOENT or another negative errno. */
int oxdp_pins_inherit(struct oxdp_pins *pins, const char *name);

/* Opens the map that the process before pinned as 'name', which begins with OXDP_PINS_STATE, until oxdp_pins_forget_old().
 * Returns its file descriptor, or a negative errno. */
int oxdp_pins_open_old(const struct oxdp_pins *pins, const char *name);

/* Whether the process before pinned 'name' and nobody inherited it; of a filter's program, only if the filter is there. */
bool oxdp_pins_has_old(const struct oxdp_pins *pins, const char *name);

/* Removes what the process before left and nobody inherited; links and filters are detached at once.  NULL is
 * allowed. */
void oxdp_pins_forget_old(struct oxdp_pins *pins);

#endif /* core/programs/pin.h */
