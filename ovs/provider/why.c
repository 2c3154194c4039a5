/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-appctl xdp/why: why a port is on its hook, why a flow does not run in
 * programs, and what would have to change. */
#include <config.h>

#include "ovs/provider/appctl.h"

#include <string.h>

#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/json.h"
#include "openvswitch/ofpbuf.h"
#include "ovs-thread.h"
#include "ovs/base/report.h"
#include "ovs/datapath/datapath.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/lookup/flow_table.h"
#include "ovs/netdev/netdev_xdp.h"
#include "ovs/ports/ports.h"
#include "simap.h"

#define INT dpif_xdp_report_get_int
#define TEXT dpif_xdp_report_get_text
#define N dpif_xdp_report_n
#define AT dpif_xdp_report_at

bool
dpif_xdp_is_flow(const char *name)
{
    return !strncmp(name, "ufid:", 5) || strchr(name, '(');
}

static void
report_hook(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
            struct json *report)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *why, *change;
    enum dpif_xdp_hook wanted;
    int hook;

    atomic_read(&CONST_CAST(struct dpif_xdp_port *, port)->hook, &hook);
    wanted = dpif_xdp_port_explain_hook(dp, port, &why, &change);
    dpif_xdp_report_text(report, "hook", dpif_xdp_hook_to_string(hook));
    if (hook == wanted) {
        dpif_xdp_report_text(report, "why", why);
        dpif_xdp_report_text(report, "change", change);
    } else {
        char *error = dpif_xdp_netdev_get_error(port->dev);
        char *text = xasprintf("it cannot have %s, which it should, because "
                               "%s: %s", dpif_xdp_hook_to_string(wanted), why,
                               error ? error : "it is about to change");

        dpif_xdp_report_text(report, "why", text);
        free(text);
        free(error);
    }
}

static void
report_port(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
            struct json *ports)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct json *report = dpif_xdp_report_element(ports);
    char *tunnels = dpif_xdp_port_explain_tunnels(dp, port);

    dpif_xdp_report_int(report, "port", odp_to_u32(port->port_no));
    dpif_xdp_report_text(report, "name", netdev_get_name(port->netdev));
    if (tunnels) {
        dpif_xdp_report_text(report, "why", tunnels);
        free(tunnels);
    } else if (!port->is_device) {
        dpif_xdp_report_text(report, "why", "it is no Linux device that "
                             "programs could serve: the engine does");
    } else if (!dpif_xdp_port_is_open(port)) {
        char *error = dpif_xdp_netdev_get_error(port->dev);

        dpif_xdp_report_text(report, "why",
                             error ? error : "its device cannot be used");
        dpif_xdp_report_text(report, "change", "as the sentence says; the "
                             "port comes back by itself");
        free(error);
    } else {
        report_hook(dp, port, report);
    }
}

/* The numbers of the ports of 'dp' by name. */
static void
port_numbers(const struct dpif_xdp_dp *dp, struct simap *numbers)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const struct dpif_xdp_query all = { .port = NULL };
    struct dpif_xdp_port **ports;
    size_t n;

    ports = dpif_xdp_query_ports(dp, &all, &n);
    for (size_t i = 0; i < n; i++) {
        simap_put(numbers, netdev_get_name(ports[i]->netdev),
                  odp_to_u32(ports[i]->port_no));
    }
    free(ports);
}

/* The flow that packets with the fields 'text' have, or NULL.  If 'text' is no
 * flow, '*errorp' says so; the caller frees it. */
static const struct dpif_xdp_flow *
find_by_fields(const struct dpif_xdp_dp *dp, const char *text,
               const struct simap *numbers, char **errorp)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    const struct dpif_xdp_flow *found = NULL;
    struct ofpbuf key, mask;
    char *reason = NULL;
    struct flow flow;
    char *whole;

    /* Flows that match no address are printed without them, but without an
     * Ethernet header nothing behind it is read. */
    whole = xasprintf("%s%s", strstr(text, "eth(") ? ""
                      : "eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00),",
                      text);
    ofpbuf_init(&key, 0);
    ofpbuf_init(&mask, 0);
    if (odp_flow_from_string(whole, numbers, &key, &mask, &reason)) {
        *errorp = xasprintf("it is no flow as dpctl/dump-flows prints them%s"
                            "%s", reason ? ": " : "", reason ? reason : "");
    } else if (odp_flow_key_to_flow(key.data, key.size, &flow, errorp)
               != ODP_FIT_ERROR) {
        struct dpif_xdp_key packet;

        dpif_xdp_key_from_flow(&flow, &packet);
        found = dpif_xdp_flows_lookup(&dp->flows, &packet);
        free(*errorp);                  /* A field that is missing. */
        *errorp = NULL;
    }
    ofpbuf_uninit(&key);
    ofpbuf_uninit(&mask);
    free(reason);
    free(whole);
    return found;
}

static void
report_flow(struct dpif_xdp_dp *dp, const char *text, struct json *report)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct simap numbers = SIMAP_INITIALIZER(&numbers);
    const struct dpif_xdp_flow *flow;
    char *error = NULL;
    ovs_u128 ufid;

    report = dpif_xdp_report_object(report, "flow");
    dpif_xdp_report_text(report, "given", text);
    port_numbers(dp, &numbers);
    dpif_xdp_flow_lock(dp);
    flow = (odp_ufid_from_string(text, &ufid) > 0
            ? dpif_xdp_flows_find(&dp->flows, &ufid)
            : find_by_fields(dp, text, &numbers, &error));
    dpif_xdp_report_bool(report, "found", flow != NULL);
    if (flow) {
        struct ds ds = DS_EMPTY_INITIALIZER;

        odp_format_ufid(&flow->ufid, &ds);
        dpif_xdp_report_text(report, "ufid", ds_cstr(&ds));
        ds_destroy(&ds);
        dpif_xdp_fastpath_report_flow(dp, flow, report);
    }
    dpif_xdp_flow_unlock(dp);
    dpif_xdp_report_text(report, "error", error);
    simap_destroy(&numbers);
    free(error);
}

void
dpif_xdp_why_report(struct dpif_xdp_dp *dp, const struct dpif_xdp_query *query,
                    struct json *report)
{
    dpif_xdp_port_lock(dp);
    if (query->flow) {
        report_flow(dp, query->flow, report);
    } else {
        struct json *array = dpif_xdp_report_array(report, "ports");
        struct dpif_xdp_port **ports;
        size_t n;

        ports = dpif_xdp_query_ports(dp, query, &n);
        for (size_t i = 0; i < n; i++) {
            report_port(dp, ports[i], array);
        }
        free(ports);
        if (!query->port) {
            dpif_xdp_flow_lock(dp);
            dpif_xdp_fastpath_report(dp, report);
            dpif_xdp_flow_unlock(dp);
        }
    }
    dpif_xdp_port_unlock(dp);
}

/* Ends a line with what would have to change. */
static void
text_change(const struct json *report, struct ds *ds)
{
    const char *change = TEXT(report, "change");

    if (change) {
        ds_put_format(ds, ". To change that: %s", change);
    }
    ds_put_cstr(ds, ".\n");
}

static void
text_port(const struct json *port, struct ds *ds)
{
    const char *hook = TEXT(port, "hook");

    ds_put_format(ds, "  port %"PRIu64": %s: ", INT(port, "port"),
                  TEXT(port, "name"));
    if (hook) {
        ds_put_format(ds, "hook %s, because ", hook);
    }
    ds_put_cstr(ds, TEXT(port, "why"));
    text_change(port, ds);
}

static void
text_flow(const struct json *flow, struct ds *ds)
{
    const char *error = TEXT(flow, "error");

    if (error) {
        ds_put_format(ds, "  %s: %s\n", TEXT(flow, "given"), error);
        return;
    }
    if (!dpif_xdp_report_get_bool(flow, "found")) {
        ds_put_cstr(ds, "  there is no such flow: its packets go to ofproto, "
                    "which makes one. dpctl/dump-flows -m lists flows.\n");
        return;
    }
    ds_put_format(ds, "  %s: ", TEXT(flow, "ufid"));
    if (strcmp(TEXT(flow, "tier"), "engine")) {
        ds_put_format(ds, "runs in a program, at %s.\n", TEXT(flow, "tier"));
        return;
    }
    ds_put_format(ds, "runs in the engine, because it %s", TEXT(flow, "why"));
    text_change(flow, ds);
}

/* The flows of the engine, by reason. */
static void
text_flows(const struct json *fast_path, struct ds *ds)
{
    const struct json *reasons
        = dpif_xdp_report_get(fast_path, "flows_by_reason");

    for (size_t i = 0; i < N(reasons); i++) {
        const struct json *reason = AT(reasons, i);

        if (INT(reason, "flows") && TEXT(reason, "change")) {
            ds_put_format(ds, "  %"PRIu64" flows run in the engine, because "
                          "each %s", INT(reason, "flows"),
                          TEXT(reason, "text"));
            text_change(reason, ds);
        }
    }
}

void
dpif_xdp_why_text(const struct json *report, struct ds *ds)
{
    const struct json *fast_path = dpif_xdp_report_get(report, "fast_path");
    const struct json *ports = dpif_xdp_report_get(report, "ports");
    const struct json *flow = dpif_xdp_report_get(report, "flow");

    ds_put_format(ds, "%s@%s:\n", TEXT(report, "type"), TEXT(report, "name"));
    for (size_t i = 0; i < N(ports); i++) {
        text_port(AT(ports, i), ds);
    }
    if (fast_path) {
        text_flows(fast_path, ds);
    }
    if (flow) {
        text_flow(flow, ds);
    }
}
