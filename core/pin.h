/* SPDX-License-Identifier: Apache-2.0 */
/* Programs, links and maps of a datapath that outlive the process: pinned in
 *
 *     /sys/fs/bpf/ovs-xdp/<inode of the network namespace>/<datapath>/
 *
 * root-only, so that known flows keep flowing when the process is killed.  The process that has the folder
 * holds a lock (flock) on it; what a dead process left there is removed by the next that opens it, and
 * folders of namespaces that are gone by whoever comes.  A normal exit() removes the folder; a signal
 * leaves it.  The layout's version is in the pinned map of struct dp_head. */
#ifndef OXDP_PIN_H
#define OXDP_PIN_H 1

struct oxdp_pins;

/* Takes the folder of datapath 'name' in the present network namespace, empty; mounts bpffs if it is
 * missing.  0, or a negative errno with a sentence in '*ret_error' (malloc'd): -EBUSY when another process
 * has the folder. */
int oxdp_pins_open(const char *name, struct oxdp_pins **ret_pins, char **ret_error);

/* Removes the folder and what is in it, which lives on as long as its file descriptors.  NULL is allowed. */
void oxdp_pins_close(struct oxdp_pins *pins);

/* Pins what 'fd' stands for; dots in 'name' become '_'.  0, or a negative errno.  With NULL for 'pins'
 * nothing happens. */
int oxdp_pins_add(struct oxdp_pins *pins, const char *name, int fd);
void oxdp_pins_remove(struct oxdp_pins *pins, const char *name);

#endif /* core/pin.h */
