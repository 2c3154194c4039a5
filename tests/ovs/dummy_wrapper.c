/* SPDX-License-Identifier: Apache-2.0 */
/* For tests only: ovs-vswitchd-xdp whose `--enable-dummy` registers our
 * provider, not dpif-netdev, as the datapath type "dummy", so that Open
 * vSwitch's unit tests drive it without devices or privileges.
 *
 * The linker's --wrap puts the __wrap_ functions here in place of Open
 * vSwitch's.  They make ours speak as dpif-netdev does where tests compare
 * words: log messages, titles of dumps, names of commands, the version.
 *
 * What the tests take for granted besides, the provider does when its class
 * is not the one of type "xdp" (ports/port.c, dpif_xdp.c):
 *
 *   - `internal` ports are opened as "dummy-internal";
 *   - a port's number is the first number in its name, plus 100 if the name
 *     starts with "br";
 *   - netdevs that are no Linux devices are polled in run(), so that what
 *     netdev-dummy/receive queued is handled before the next appctl command;
 *   - statistics of masks and caches are reported as unknown. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dpif-provider.h"
#include "dpif.h"
#include "dummy.h"
#include "netdev.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/ofp-print.h"
#include "openvswitch/vlog.h"
#include "ovs/provider/ct_commands.h"
#include "ovs/provider/dpif_xdp.h"
#include "ovs/datapath/datapath.h"
#include "ovs/flows/flows.h"
#include "ovs/state/ct.h"
#include "sset.h"
#include "unixctl.h"
#include "util.h"

void __wrap_dpif_dummy_register(enum dummy_level);
void __wrap_vlog_insert_module(struct ovs_list *);
void __real_vlog_insert_module(struct ovs_list *);
void __wrap_unixctl_command_register(const char *name, const char *usage,
                                     int min_args, int max_args,
                                     unixctl_cb_func *, void *aux);
void __real_unixctl_command_register(const char *name, const char *usage,
                                     int min_args, int max_args,
                                     unixctl_cb_func *, void *aux);

const char *__wrap_dpif_xdp_version_add(const char *theirs);

static void register_as(const char *type);
static void override(const char *type);
static void register_upcall_cb(struct dpif *, upcall_callback *, void *aux);
static int flow_dump_next(struct dpif_flow_dump_thread *, struct dpif_flow *,
                          int max_flows);
#if OXDP_OVS >= 302
static int ct_get_sweep_interval(struct dpif *, uint32_t *ms);
#endif
static unixctl_cb_func change_port_number;

/* The log module that calls itself "dpif_netdev". */
static struct vlog_module *flow_module;

/* In place of lib/dpif-netdev.c's. */
void
__wrap_dpif_dummy_register(enum dummy_level level)
{
    if (level == DUMMY_OVERRIDE_ALL) {
        struct sset types = SSET_INITIALIZER(&types);
        const char *type;

        dp_enumerate_types(&types);
        SSET_FOR_EACH (type, &types) {
            override(type);
        }
        sset_destroy(&types);
    } else if (level == DUMMY_OVERRIDE_SYSTEM) {
        override("system");
    }
    register_as("dummy");
    unixctl_command_register("dpif-dummy/change-port-number",
                             "dp port new-number", 3, 3, change_port_number,
                             NULL);
}

/* The tests set the level of, and look for messages of, "dpif_netdev" to see
 * flows come and go: the messages of flows/flow_put.c have the same form. */
void
__wrap_vlog_insert_module(struct ovs_list *node)
{
    struct vlog_module *module = CONTAINER_OF(node, struct vlog_module, list);

    if (!strcmp(module->name, "dpif_netdev")) {
        module->name = "dpif_netdev_stock";
    } else if (!strcmp(module->name, "dpif_xdp_flow")) {
        module->name = "dpif_netdev";
        flow_module = module;
    }
    __real_vlog_insert_module(node);
}

/* The tests ask dpif-netdev for the members of bonds. */
void
__wrap_unixctl_command_register(const char *name, const char *usage,
                                int min_args, int max_args,
                                unixctl_cb_func *cb, void *aux)
{
    if (!strcmp(name, "dpif-netdev/bond-show")) {
        return;
    }
    if (!strcmp(name, "xdp/bond-show")) {
        name = "dpif-netdev/bond-show";
    }
    dpif_xdp_ct_command_take(name, &cb, &aux);
    __real_unixctl_command_register(name, usage, min_args, max_args, cb, aux);
}

/* A test puts the text of the version into JSON as it stands, which two lines
 * cannot. */
const char *
__wrap_dpif_xdp_version_add(const char *theirs)
{
    return theirs;
}

static void
register_as(const char *type)
{
    struct dpif_class *class = xmemdup(&dpif_xdp_class, sizeof *class);

    class->type = xstrdup(type);
    class->register_upcall_cb = register_upcall_cb;
    class->flow_dump_next = flow_dump_next;
    class->cache_get_supported_levels = NULL;
#if OXDP_OVS >= 302
    class->ct_get_sweep_interval = ct_get_sweep_interval;
#endif
    dp_register_provider(class);
}

static void
override(const char *type)
{
    int error = dp_unregister_provider(type);

    if (!error || error == EAFNOSUPPORT) {
        register_as(type);
    }
}

/* ofproto's upcall callback.  Lives as long as the daemon. */
struct upcall {
    upcall_callback *cb;
    void *aux;
    const char *dp_name;
};

/* Logs the upcall as lib/dpif-netdev.c does. */
static void
log_upcall(const struct upcall *upcall, const struct dp_packet *packet,
           const struct flow *flow, enum dpif_upcall_type type,
           const struct flow_wildcards *wc)
{
    struct odp_flow_key_parms parms = {
        .flow = flow,
        .mask = wc ? &wc->masks : NULL,
        .support = dpif_xdp_odp_support,
    };
    char *text = ofp_dp_packet_to_string(packet);
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct ofpbuf key;

    ofpbuf_init(&key, 0);
    odp_flow_key_from_flow(&parms, &key);
    odp_flow_key_format(key.data, key.size, &ds);
    vlog(flow_module, VLL_DBG, "%s: %s upcall:\n%s\n%s", upcall->dp_name,
         dpif_upcall_type_to_string(type), ds_cstr(&ds), text);
    ofpbuf_uninit(&key);
    ds_destroy(&ds);
    free(text);
}

/* Says that the upcall comes from dpif-netdev's main thread. */
static int
upcall_cb(const struct dp_packet *packet, const struct flow *flow,
          ovs_u128 *ufid, unsigned int pmd_id OVS_UNUSED,
          enum dpif_upcall_type type, const struct nlattr *userdata,
          struct ofpbuf *actions, struct flow_wildcards *wc,
          struct ofpbuf *put_actions, void *upcall_)
{
    const struct upcall *upcall = upcall_;

    if (vlog_is_enabled(flow_module, VLL_DBG)) {
        log_upcall(upcall, packet, flow, type, wc);
    }
    return upcall->cb(packet, flow, ufid, NON_PMD_CORE_ID, type, userdata,
                      actions, wc, put_actions, upcall->aux);
}

static void
register_upcall_cb(struct dpif *dpif, upcall_callback *cb, void *aux)
{
    struct upcall *upcall = xmalloc(sizeof *upcall);

    upcall->cb = cb;
    upcall->aux = aux;
    upcall->dp_name = xstrdup(dpif_base_name(dpif));
    dpif_xdp_class.register_upcall_cb(dpif, upcall_cb, upcall);
}

/* Dumps begin with "flow-dump from the main thread:" then. */
static int
flow_dump_next(struct dpif_flow_dump_thread *thread, struct dpif_flow *flows,
               int max_flows)
{
    int n = dpif_xdp_class.flow_dump_next(thread, flows, max_flows);

    for (int i = 0; i < n; i++) {
        flows[i].pmd_id = NON_PMD_CORE_ID;
    }
    return n;
}

#if OXDP_OVS >= 302
/* The tests know lib/conntrack's default. */
static int
ct_get_sweep_interval(struct dpif *dpif, uint32_t *ms)
{
    int error = dpif_xdp_class.ct_get_sweep_interval(dpif, ms);

    if (!error && *ms == DPIF_XDP_CT_SWEEP_MS) {
        *ms = 20000;
    }
    return error;
}
#endif

/* Gives a port another number behind ofproto's back. */
static void
change_port_number(struct unixctl_conn *conn, int argc OVS_UNUSED,
                   const char *argv[], void *aux OVS_UNUSED)
{
    odp_port_t port_no = u32_to_odp(atoi(argv[3]));
    struct netdev *netdev = NULL;
    struct dpif_port port;
    struct dpif *dpif;
    int error;

    if (dpif_open(argv[1], "dummy", &dpif)) {
        unixctl_command_reply_error(conn,
                                    "unknown datapath or not a dummy");
        return;
    }
    if (dpif_port_query_by_name(dpif, argv[2], &port)) {
        unixctl_command_reply_error(conn, "unknown port");
        dpif_close(dpif);
        return;
    }

    error = netdev_open(port.name, port.type, &netdev);
    if (!error) {
        error = dpif_port_del(dpif, port.port_no, false);
    }
    if (!error) {
        error = dpif_port_add(dpif, netdev, &port_no);
    }
    if (error) {
        unixctl_command_reply_error(conn, ovs_strerror(error));
    } else {
        unixctl_command_reply(conn, NULL);
    }
    netdev_close(netdev);
    dpif_port_destroy(&port);
    dpif_close(dpif);
}
