/* SPDX-License-Identifier: Apache-2.0 */
/* The device through which programs at tcx move a packet to the backlog of another CPU (bpf/order.h): a veth with a
 * receive queue for each CPU, whose packets that CPU gets (RPS).  Nothing is sent by it, and its peer hears nothing. */
#ifndef OXDP_ORDER_H
#define OXDP_ORDER_H 1

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

struct oxdp_order {
    char device[IF_NAMESIZE];
    int ifindex;                /* 0: there is no device. */
};

/* Makes the device of the datapath 'name' for CPUs below 'n_cpus', beside that of a previous instance, or takes one
 * that is down.  It is down.  0, or a negative errno with a sentence in '*ret_error' (malloc'd): -EACCES if there is
 * none and the process may not make one, because RPS is a file of root's; -ENOENT if the kernel has no RPS. */
int oxdp_order_make(const char *name, uint32_t n_cpus, struct oxdp_order *ret_order, char **ret_error);

/* Makes devices, as root, for processes that are not: two, for one may be a previous instance's.  Those that are there
 * stay.  As oxdp_order_make(). */
int oxdp_order_provide(const char *name, uint32_t n_cpus, char **ret_error);

/* Removes it, if there is one.  A process that may not make another sets it down. */
void oxdp_order_remove(struct oxdp_order *order);

/* Whether it is there and up. */
bool oxdp_order_works(const struct oxdp_order *order);

/* Whether an instance of the datapath 'name' has one that is up. */
bool oxdp_order_exists(const char *name);

/* Removes those of previous instances of the datapath 'name', all but 'order', as oxdp_order_remove() does.  Returns
 * how many that were. */
unsigned int oxdp_order_sweep(const char *name, const struct oxdp_order *order);

/* Whether a device has such a name. */
bool oxdp_order_has_name(const char *name, const char *device);

#endif /* core/kernel/order.h */
