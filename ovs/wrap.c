/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of Open vSwitch whose callers the linker's --wrap sends here
 * first. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "dpif.h"
#include "dpif-netlink.h"
#include "dpif-provider.h"
#include "ovs/base/compat.h"
#include "ovs/provider/dpif_xdp.h"
#include "netdev-provider.h"
#include "ovs/netdev/netdev_xdp.h"
#include "lib/vswitch-idl.h"
#include "ofproto/ofproto.h"
#include "openvswitch/vlog.h"
#include "smap.h"
#include "util.h"

/* Open vSwitch's tests know "vswitchd|INFO|ovs-vswitchd (Open vSwitch)" as a
 * line of a healthy start, and no other with a version. */
VLOG_DEFINE_THIS_MODULE(xdp_vswitchd);

/* Three functions of lib/dpif.c return whether a datapath is one of Open
 * vSwitch's own.  For a datapath of type "xdp" the answer is yes, else
 * lib/dpif.c gives it. */
#define ANSWER_FOR_XDP(QUESTION) ANSWER_FOR_XDP_(QUESTION)
#define ANSWER_FOR_XDP_(QUESTION)                                   \
    bool __real_##QUESTION(const struct dpif *);                    \
    bool __wrap_##QUESTION(const struct dpif *);                    \
    bool                                                            \
    __wrap_##QUESTION(const struct dpif *dpif)                      \
    {                                                               \
        return (dpif->dpif_class->open == dpif_xdp_class.open       \
                || __real_##QUESTION(dpif));                        \
    }

ANSWER_FOR_XDP(dpif_supports_tnl_push_pop)
ANSWER_FOR_XDP(DPIF_XDP_DROP_QUESTION)
ANSWER_FOR_XDP(dpif_supports_lb_output_action)

/* lib/netdev-linux.c asks the kernel's datapath in which network namespace a
 * device is.  After "no such port" it does not know, and ignores the kernel's
 * messages about the device, also that it is gone.  After "no such datapath"
 * it assumes its own namespace, where all our devices are, whether
 * openvswitch.ko is loaded or not. */
int __real_dpif_netlink_vport_get(const char *, struct dpif_netlink_vport *,
                                  struct ofpbuf **);
int __wrap_dpif_netlink_vport_get(const char *, struct dpif_netlink_vport *,
                                  struct ofpbuf **);

int
__wrap_dpif_netlink_vport_get(const char *name,
                              struct dpif_netlink_vport *reply,
                              struct ofpbuf **bufp)
{
    int error = __real_dpif_netlink_vport_get(name, reply, bufp);

    return error == ENODEV ? ENOENT : error;
}

/* Why a port could not be added: vswitchd/bridge.c puts ovs_strerror() of what
 * netdev_open() or ofproto_port_add() returned into the Interface's "error"
 * column, and calls it right after that.  A sentence replaces it there. */
static __thread char *refusal;          /* The sentence, or NULL. */
static __thread int refusal_errno;      /* Of what it says. */
static __thread int refusal_calls;      /* In this many next calls. */

int __real_netdev_open(const char *, const char *, struct netdev **);
int __wrap_netdev_open(const char *, const char *, struct netdev **);
int __real_ofproto_port_add(struct ofproto *, struct netdev *, ofp_port_t *);
int __wrap_ofproto_port_add(struct ofproto *, struct netdev *, ofp_port_t *);
const char *__real_ovs_strerror(int);
const char *__wrap_ovs_strerror(int);

/* Has 'text', which may be NULL and is freed here, stand for 'error' in the
 * next 'n' calls of ovs_strerror(), if they ask for 'error'. */
static void
explain(int error, char *text, int n)
{
    free(refusal);
    refusal = text;
    refusal_errno = error;
    refusal_calls = text ? n : 0;
}

int
__wrap_netdev_open(const char *name, const char *type,
                   struct netdev **netdevp)
{
    int error = __real_netdev_open(name, type, netdevp);

    explain(error, error == EAFNOSUPPORT && type
            ? xasprintf("there is no interface type \"%s\": a device of the "
                        "host has none, others are internal, tap, patch, "
                        "vxlan, geneve, gre ...", type)
            : NULL, 2);                 /* VLOG_WARN_BUF() calls it twice. */
    return error;
}

int
__wrap_ofproto_port_add(struct ofproto *ofproto, struct netdev *netdev,
                        ofp_port_t *ofp_portp)
{
    int error = __real_ofproto_port_add(ofproto, netdev, ofp_portp);

    explain(error, error ? dpif_xdp_netdev_get_error(netdev) : NULL, 1);
    return error;
}

const char *
__wrap_ovs_strerror(int error)
{
    bool ours = refusal_calls && error == refusal_errno;

    refusal_calls = ours ? refusal_calls - 1 : 0;
    return ours ? refusal : __real_ovs_strerror(error);
}

/* `ovs-appctl version` prints both versions, and so does the first line of the
 * log. */
const char *__real_ovs_get_program_version(void);
const char *__wrap_ovs_get_program_version(void);
void __real_bridge_init(const char *remote);
void __wrap_bridge_init(const char *remote);

const char *
__wrap_ovs_get_program_version(void)
{
    return dpif_xdp_version_add(__real_ovs_get_program_version());
}

void
__wrap_bridge_init(const char *remote)
{
    VLOG_INFO("ovs-vswitchd (Open vSwitch) %s, of OVS-XDP %s", VERSION,
              OXDP_VERSION);
    dpif_xdp_leave_init();
    __real_bridge_init(remote);
}

/* The error of a port that exists: vswitchd/bridge.c has none, and clears the
 * "error" column.  For our devices the column shows status:xdp-error. */
void __real_ovsrec_interface_set_error(const struct ovsrec_interface *,
                                       const char *);
void __wrap_ovsrec_interface_set_error(const struct ovsrec_interface *,
                                       const char *);
void __real_ovsrec_interface_set_status(const struct ovsrec_interface *,
                                        const struct smap *);
void __wrap_ovsrec_interface_set_status(const struct ovsrec_interface *,
                                        const struct smap *);

void
__wrap_ovsrec_interface_set_error(const struct ovsrec_interface *row,
                                  const char *error)
{
    struct netdev *netdev = error ? NULL : netdev_from_name(row->name);
    char *ours = netdev ? dpif_xdp_netdev_get_error(netdev) : NULL;

    __real_ovsrec_interface_set_error(row, ours ? ours : error);
    free(ours);
    netdev_close(netdev);
}

void
__wrap_ovsrec_interface_set_status(const struct ovsrec_interface *row,
                                   const struct smap *status)
{
    __real_ovsrec_interface_set_status(row, status);
    if (status && smap_get(status, "xdp-hook")) {
        __real_ovsrec_interface_set_error(row,
                                          smap_get(status, "xdp-error"));
    }
}
