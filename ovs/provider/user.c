/* SPDX-License-Identifier: Apache-2.0 */
/* `--user`: the daemon goes on as an ordinary user.
 *
 * Open vSwitch keeps the capabilities that its own datapaths need
 * (daemon_become_new_user_linux() of lib/daemon-unix.c): CAP_NET_ADMIN,
 * CAP_NET_RAW, CAP_NET_BROADCAST, CAP_NET_BIND_SERVICE and CAP_IPC_LOCK.
 * Programs need CAP_BPF and CAP_PERFMON besides, and pins a folder in bpffs
 * that the user owns.  The device for the order of TCP's packets only root
 * can make. */
#include <config.h>

#if HAVE_LIBCAPNG
#include <cap-ng.h>
#include <linux/capability.h>
#include <stdlib.h>

#include "core/cpu.h"
#include "core/kernel/order.h"
#include "core/privilege.h"
#include "core/programs/pin.h"
#include "openvswitch/vlog.h"

VLOG_DEFINE_THIS_MODULE(xdp_user);

/* ofproto's name of the datapath of all bridges of type "xdp". */
#define DATAPATH "ovs-xdp"

int __real_capng_change_id(int uid, int gid, capng_flags_t);
int __wrap_capng_change_id(int uid, int gid, capng_flags_t);

static void
keep(unsigned int capability)
{
    if (oxdp_privilege_has(capability)) {
        capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, capability);
    }
}

/* Without it packets go on as they come, and xdp/show says so.  One CPU needs
 * none. */
static void
provide_order(int uid)
{
    uint32_t n_cpus = oxdp_n_cpu_ids();
    char *error = NULL;

    if (uid && n_cpus > 1
        && oxdp_order_provide(DATAPATH, n_cpus, &error)) {
        VLOG_WARN("%s: TCP's packets are not kept in order", error);
        free(error);
    }
}

/* Called with the privileges that the daemon was started with, after Open
 * vSwitch chose what to keep of them. */
int
__wrap_capng_change_id(int uid, int gid, capng_flags_t flags)
{
    char *error = NULL;

    keep(CAP_BPF);
    keep(CAP_PERFMON);
    if (oxdp_pins_give(uid, gid, &error)) {
        VLOG_WARN("%s: programs will end with the daemon", error);
        free(error);
    }
    provide_order(uid);
    return __real_capng_change_id(uid, gid, flags);
}
#endif
