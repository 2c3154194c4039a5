/* SPDX-License-Identifier: Apache-2.0 */
/* Programs, links and maps of a datapath that outlive the process: pinned in
 *
 *     /sys/fs/bpf/ovs-xdp/<inode of the network namespace>/<datapath>/
 *
 * root-only, so that known flows keep flowing when the process ends, however it ends.  The process that uses
 * the folder holds a lock (flock) on it.  It moves the links of a previous instance, the programs of its filters and
 * the maps that may be adopted to the folder "old" in it.  The programs go on until the new process has taken them
 * over, or has called oxdp_pins_forget_old().  A process that starts removes folders of namespaces that are gone.  The
 * layout's version is in the pinned map of struct dp_head.
 *
 * What a pin is, its name says: link-IFINDEX, tcx-IFINDEX and out-IFINDEX, upcall, filter-IFINDEX, state-MAP,
 * detour-END; else the name of a map or a program.  pin.c has the table, and the order in which a folder is emptied. */
#ifndef OXDP_PIN_H
#define OXDP_PIN_H 1

#include <stdbool.h>
#include <sys/types.h>

/* The names of pinned maps that the next instance may adopt begin with this. */
#define OXDP_PINS_STATE "state-"

struct oxdp_pins;

/* For a process that becomes user 'uid' of group 'gid': mounts bpffs if it is missing, makes the folder above those
 * of all namespaces and gives it to that user, with what previous instances left in it.  Where others may not enter
 * bpffs, as systemd mounts it, they may from now on; what is in it keeps its permissions.  0, or a negative errno with
 * a sentence in '*ret_error' (malloc'd). */
int oxdp_pins_give(uid_t uid, gid_t gid, char **ret_error);

/* Locks the folder of datapath 'name' in the present network namespace; mounts bpffs if it is missing.  What is in it
 * stays as it is until oxdp_pins_start().  0, or a negative errno with a sentence in '*ret_error' (malloc'd): -EBUSY
 * when another process has the folder. */
int oxdp_pins_open(const char *name, struct oxdp_pins **ret_pins, char **ret_error);

/* The folder is this process's from now on: what the previous instance left moves to "old".  Called once, before
 * anything is pinned or inherited. */
void oxdp_pins_start(struct oxdp_pins *pins);

/* Removes the folder and the pins in it; objects live on as long as their file descriptors.  Before oxdp_pins_start()
 * it only unlocks the folder.  NULL is allowed. */
void oxdp_pins_close(struct oxdp_pins *pins);

/* The folder; NULL for NULL. */
const char *oxdp_pins_folder(const struct oxdp_pins *pins);

/* Pins what 'fd' stands for; dots in 'name' become '_'.  0, or a negative errno.  With NULL for 'pins'
 * nothing happens. */
int oxdp_pins_add(struct oxdp_pins *pins, const char *name, int fd);
void oxdp_pins_remove(struct oxdp_pins *pins, const char *name);

/* Takes the link that the previous instance pinned as 'name', under the same name.  Returns its file descriptor,
 * -ENOENT or another negative errno. */
int oxdp_pins_inherit(struct oxdp_pins *pins, const char *name);

/* Opens the map that the previous instance pinned as 'name', which begins with OXDP_PINS_STATE, until
 * oxdp_pins_forget_old().  Returns its file descriptor, or a negative errno. */
int oxdp_pins_open_old(const struct oxdp_pins *pins, const char *name);

/* The same of one whose name begins with 'prefix'. */
int oxdp_pins_open_any_old(const struct oxdp_pins *pins, const char *prefix);

/* Whether the previous instance pinned a map under a name that begins with 'prefix', and that was not inherited.
 * 'prefix' begins with OXDP_PINS_STATE. */
bool oxdp_pins_has_old_state(const struct oxdp_pins *pins, const char *prefix);

/* Whether the previous instance pinned 'name' and it was not inherited; of a filter's program, only if the filter
 * exists. */
bool oxdp_pins_has_old(const struct oxdp_pins *pins, const char *name);

/* Removes what the previous instance left and was not inherited; links and filters are detached at once.  NULL is
 * allowed. */
void oxdp_pins_forget_old(struct oxdp_pins *pins);

#endif /* core/programs/pin.h */
