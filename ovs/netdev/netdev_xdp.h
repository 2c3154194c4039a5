/* SPDX-License-Identifier: Apache-2.0 */
/* The netdev class "xdp": a Linux device used through XDP and AF_XDP.
 *
 * In a datapath of type xdp, interfaces of type "system" (the default) and
 * "afxdp" open as "xdp".  The class is Open vSwitch's "system" class with
 * options:
 *
 *   xdp-mode   best-effort (default), native-with-zerocopy, native, generic
 *   xdp-hook   auto (default), xdp, tcx, both
 *   xdp-obj    the program of the port: a file, or builtin
 *   xdp-peer   true (default), false: packets never skip this end of a veth
 *
 * and with what is in use in the Interface table's status column.  "n_rxq" and
 * "use-need-wakeup" of "afxdp" have no effect: all queues are served, and the
 * kernel is woken up if it wants to be. */
#ifndef NETDEV_XDP_H
#define NETDEV_XDP_H 1

#include <stdbool.h>
#include <stdint.h>

#include "core/programs/progs.h"

struct netdev;
struct oxdp_device;

/* Where programs take a device's packets: options:xdp-hook. */
enum dpif_xdp_hook {
    DPIF_XDP_HOOK_AUTO,
    DPIF_XDP_HOOK_XDP,
    DPIF_XDP_HOOK_TCX,
    DPIF_XDP_HOOK_BOTH,                 /* tcx gets the packets that XDP
                                         * leaves. */
    DPIF_XDP_HOOK_EITHER,               /* No option: packets of a port without
                                         * a device come by either hook. */
    DPIF_XDP_HOOK_NONE,                 /* No option: the engine alone. */
};

/* Where programs get the packets of a port on 'hook': DPIF_XDP_AT_*, or 0 if
 * that is not known or nowhere.  A hook without a case does not compile. */
#define DPIF_XDP_AT_XDP (1 << 0)
#define DPIF_XDP_AT_TCX (1 << 1)

static inline unsigned int
dpif_xdp_hook_at(enum dpif_xdp_hook hook)
{
    switch (hook) {
    case DPIF_XDP_HOOK_XDP:
        return DPIF_XDP_AT_XDP;
    case DPIF_XDP_HOOK_TCX:
        return DPIF_XDP_AT_TCX;
    case DPIF_XDP_HOOK_BOTH:
        return DPIF_XDP_AT_XDP | DPIF_XDP_AT_TCX;
    case DPIF_XDP_HOOK_AUTO:
    case DPIF_XDP_HOOK_EITHER:
    case DPIF_XDP_HOOK_NONE:
        break;
    }
    return 0;
}

static inline bool
dpif_xdp_hook_has_xdp(enum dpif_xdp_hook hook)
{
    return dpif_xdp_hook_at(hook) & DPIF_XDP_AT_XDP;
}

static inline bool
dpif_xdp_hook_has_tcx(enum dpif_xdp_hook hook)
{
    return dpif_xdp_hook_at(hook) & DPIF_XDP_AT_TCX;
}

/* Whether that is at tcx alone. */
static inline bool
dpif_xdp_hook_is_tcx(enum dpif_xdp_hook hook)
{
    return dpif_xdp_hook_at(hook) == DPIF_XDP_AT_TCX;
}

const char *dpif_xdp_hook_to_string(enum dpif_xdp_hook);
bool dpif_xdp_hook_from_string(const char *, enum dpif_xdp_hook *);

struct dpif_xdp_netdev_config {
    uint64_t seq;                       /* Changes with 'mode' and 'hook'. */
    uint64_t obj_seq;                   /* With dpif_xdp_netdev_get_obj(). */
    bool has_obj;                       /* A file. */
    enum oxdp_mode mode;
    enum dpif_xdp_hook hook;
    bool shaped;                        /* Sends through a qdisc (Open
                                         * vSwitch's QoS table), which AF_XDP
                                         * and XDP would bypass. */
    bool no_peer;                       /* options:xdp-peer=false. */
};

/* Registers the class.  Called before Open vSwitch's main(). */
void dpif_xdp_netdev_register(void);

/* Whether 'netdev' is of this class. */
bool dpif_xdp_netdev_is(const struct netdev *);

/* Reads the options of 'netdev', which is of this class. */
void dpif_xdp_netdev_get_config(const struct netdev *,
                                struct dpif_xdp_netdev_config *);

/* options:xdp-obj of 'netdev', which is of this class: NULL if there is none.
 * The caller frees it. */
char *dpif_xdp_netdev_get_obj(const struct netdev *);

/* Values that are allowed there and in other_config:xdp-obj: an absolute path,
 * or "builtin". */
bool dpif_xdp_obj_is_valid(const char *);
bool dpif_xdp_obj_is_file(const char *);        /* NULL is none. */

/* Sets the status of 'netdev', of this class: the mode in use, the hook in
 * use, the program's file or NULL, and a sentence on what is wrong or NULL.
 * Returns whether that changed. */
bool dpif_xdp_netdev_set_status(struct netdev *, const char *mode,
                                const char *hook, const char *obj,
                                const char *error);

/* Warnings about a device that works, each set by one place in the code. */
enum dpif_xdp_warning {
    DPIF_XDP_WARNING_OPTIONS,           /* Keys that are not known. */
    DPIF_XDP_WARNING_POLICING,          /* ingress_policing_rate. */
    DPIF_XDP_WARNING_GUEST,             /* The hook costs a guest's
                                         * offloads. */
    DPIF_XDP_WARNING_MTU,
    DPIF_XDP_WARNING_MTU_REQUEST,       /* mtu_request. */
    DPIF_XDP_WARNING_GENERIC,           /* Generic XDP by default. */
    DPIF_XDP_WARNING_QUEUES,            /* virtio_net has none for XDP. */
    DPIF_XDP_WARNING_USERS,             /* The host uses the device, too. */
    DPIF_XDP_N_WARNINGS
};

/* Says 'text' in status:xdp-warning and, if it is new there, in the log.
 * NULL: not any more.  Any thread, without the locks of 'netdev'. */
void dpif_xdp_netdev_set_warning(struct netdev *, enum dpif_xdp_warning,
                                 const char *text);

/* What is wrong with 'netdev', of any class, and with its options; or NULL.
 * The caller frees it. */
char *dpif_xdp_netdev_get_error(const struct netdev *);

/* Makes the datapath watch the devices that packets are sent to
 * (core/kernel/watch.h).  Returns whether it does. */
bool dpif_xdp_netdev_watch(void);

/* Warns if foreign programs came or went at tcx of 'netdev', of this class.
 * Call it now and then. */
void dpif_xdp_netdev_follow_others(struct netdev *);

/* Sets the device of 'netdev', of this class, promiscuous, or undoes that if
 * this did it.  Unlike netdev_turn_flags_on() it lasts when the daemon ends,
 * because programs go on.  0, or a positive errno. */
int dpif_xdp_netdev_set_promiscuous(struct netdev *, bool on);

/* Make 'netdev', of this class, count as received what the program of 'progs'
 * on it counts.  Called by the main thread: the first after attaching, the
 * second before detaching. */
void dpif_xdp_netdev_count_start(struct netdev *, const struct oxdp_progs *,
                                 const struct oxdp_device *);
void dpif_xdp_netdev_count_stop(struct netdev *);

/* Makes 'netdev', of this class, count as dropped at sending what 'send_drops'
 * returns for 'port', until it is called with NULL, NULL.  Called by the main
 * thread. */
void dpif_xdp_netdev_set_port(struct netdev *,
                              uint64_t (*send_drops)(void *port), void *port);

#endif /* ovs/netdev/netdev_xdp.h */
