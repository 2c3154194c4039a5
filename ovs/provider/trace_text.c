/* SPDX-License-Identifier: Apache-2.0 */
/* Traced packets as reports, and as text. */
#include <config.h>

#include "ovs/provider/trace.h"

#include <time.h>

#include "core/programs/progs.h"
#include "dp-packet.h"
#include "dp/record.h"
#include "dp/table.h"
#include "flow.h"
#include "netdev.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/json.h"
#include "openvswitch/ofpbuf.h"
#include "ovs/base/report.h"
#include "ovs/datapath/datapath.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/flows/flows.h"
#include "packets.h"
#include "util.h"
#include "uuid.h"

#define INT dpif_xdp_report_get_int
#define TEXT dpif_xdp_report_get_text
#define N dpif_xdp_report_n
#define AT dpif_xdp_report_at
#define BOOL dpif_xdp_report_get_bool

static const char *const found_texts[] = {
    [DP_FOUND_NOTHING] = "no flow",
    [DP_FOUND_LAST] = "last-flow cache",
    [DP_FOUND_CACHE] = "signature cache",
    [DP_FOUND_MASKS] = "tuple space search",
    [DP_FOUND_PATH] = "path cache",
};

static const char *const end_names[] = {
    [DPIF_XDP_TRACE_FORWARDED] = "forwarded",
    [DPIF_XDP_TRACE_DROPPED] = "dropped",
    [DPIF_XDP_TRACE_ENGINE] = "engine",
    [DPIF_XDP_TRACE_PASSED] = "passed",
};

/* Nanoseconds of CLOCK_REALTIME for those of CLOCK_MONOTONIC. */
static uint64_t
to_real_time(uint64_t ns)
{
    struct timespec real, monotonic;

    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    return (ns + (real.tv_sec - monotonic.tv_sec) * INT64_C(1000000000)
            + (real.tv_nsec - monotonic.tv_nsec));
}

/* The packet as it arrived: what was not copied of it is 0. */
static struct dp_packet *
to_packet(const struct dp_traced *traced)
{
    struct dp_packet *packet = dp_packet_new(traced->length);
    size_t tag_len = traced->tag ? VLAN_HEADER_LEN : 0;
    size_t captured = traced->captured;

    if (tag_len && captured > 2 * ETH_ADDR_LEN) {
        dp_packet_put(packet, traced->bytes, 2 * ETH_ADDR_LEN);
        dp_packet_put(packet, &traced->tag, tag_len);
        dp_packet_put(packet, traced->bytes + 2 * ETH_ADDR_LEN,
                      captured - 2 * ETH_ADDR_LEN);
    } else {
        dp_packet_put(packet, traced->bytes, captured);
    }
    if (dp_packet_size(packet) < traced->length) {
        dp_packet_put_zeros(packet,
                            traced->length - dp_packet_size(packet));
    }
    return packet;
}

/* Puts the fields of the packet, and its bytes as far as they were copied. */
static void
report_bytes(const struct dp_traced *traced, struct json *report)
{
    struct odp_flow_key_parms parms = { .support = dpif_xdp_odp_support };
    size_t n = traced->captured + (traced->tag ? VLAN_HEADER_LEN : 0);
    struct dp_packet *packet = to_packet(traced);
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct ofpbuf key;
    struct flow flow;

    pkt_metadata_init(&packet->md, u32_to_odp(traced->in_port));
    flow_extract(packet, &flow);
    ofpbuf_init(&key, 0);
    parms.flow = &flow;
    odp_flow_key_from_flow(&parms, &key);
    odp_flow_key_format(key.data, key.size, &ds);
    dpif_xdp_report_text(report, "fields", ds_cstr(&ds));
    ds_clear(&ds);
    for (size_t i = 0; i < n && i < dp_packet_size(packet); i++) {
        ds_put_format(&ds, "%02x", ((uint8_t *) dp_packet_data(packet))[i]);
    }
    dpif_xdp_report_text(report, "bytes", ds_cstr(&ds));
    ofpbuf_uninit(&key);
    ds_destroy(&ds);
    dp_packet_delete(packet);
}

static void
report_port(const struct dpif_xdp_dp *dp, uint32_t port_no,
            const char *key, struct json *report)
{
    const struct dpif_xdp_port *port
        = dpif_xdp_port_lookup(dp, u32_to_odp(port_no));
    char *name_key = xasprintf("%s_name", key);

    dpif_xdp_report_int(report, key, port_no);
    dpif_xdp_report_text(report, name_key,
                         port ? netdev_get_name(port->netdev) : NULL);
    free(name_key);
}

static void
report_pass(const struct dpif_xdp_dp *dp, const struct dp_way_pass *pass,
            struct json *report)
{
    const struct dp_record record = { .flow = pass->flow,
                                      .generation = pass->generation };
    const struct dpif_xdp_flow *flow = dpif_xdp_fastpath_matched(dp, &record);

    dpif_xdp_report_text(report, "found",
                         pass->found < ARRAY_SIZE(found_texts)
                         ? found_texts[pass->found] : "?");
    dpif_xdp_report_int(report, "masks_walked", pass->masks);
    if (flow) {
        struct ds ds = DS_EMPTY_INITIALIZER, actions = DS_EMPTY_INITIALIZER;

        odp_format_ufid(&flow->ufid, &ds);
        dpif_xdp_report_text(report, "ufid", ds_cstr(&ds));
        ds_clear(&ds);
        dpif_xdp_flow_to_text(dp, flow, &ds, &actions);
        dpif_xdp_report_text(report, "match", ds_cstr(&ds));
        dpif_xdp_report_text(report, "actions", ds_cstr(&actions));
        ds_destroy(&ds);
        ds_destroy(&actions);
        dpif_xdp_fastpath_report_mask(dp, pass->flow, report);
    } else if (pass->flow != DP_NO_FLOW) {
        dpif_xdp_report_bool(report, "gone", true);
    }
}

/* Puts what the ct() found that the flow of pass 'i' did. */
static void
report_ct(const struct dp_way *way, uint32_t i, struct json *report)
{
    struct json *array = NULL;

    for (uint32_t j = 0; j < way->n_ct && j < DP_WAY_CT; j++) {
        const struct dp_way_ct *ct = &way->ct[j];

        if (ct->pass == i) {
            struct ds ds = DS_EMPTY_INITIALIZER;
            struct json *element;

            array = array ? array : dpif_xdp_report_array(report, "ct");
            element = dpif_xdp_report_element(array);
            dpif_xdp_report_int(element, "zone", ct->zone);
            format_flags(&ds, ct_state_to_string, ct->state, '|');
            dpif_xdp_report_text(element, "state", ds_cstr(&ds));
            ds_destroy(&ds);
        }
    }
}

static const char *
hook_name(enum dp_trace_hook hook)
{
    switch (hook) {
    case DP_TRACE_XDP:
        return "xdp";
    case DP_TRACE_TCX:
        return "tcx";
    }
    return "unknown";
}

void
dpif_xdp_trace_report_packet(struct dpif_xdp_dp *dp,
                             const struct dpif_xdp_trace_packet *packet,
                             struct json *report)
{
    const struct dp_traced *traced = &packet->traced;
    enum dpif_xdp_trace_end end = dpif_xdp_trace_end_of(traced->reason);
    const struct dpif_xdp_trace_line *line;
    bool to_tcx = traced->fate == DP_FATE_SKB;
    struct json *array;

    dpif_xdp_report_int(report, "packet", traced->id);
    dpif_xdp_report_int(report, "time_ns", to_real_time(traced->time));
    dpif_xdp_report_int(report, "cpu", traced->cpu);
    dpif_xdp_report_text(report, "hook",
                         packet->from_socket ? "socket"
                         : hook_name(traced->hook));
    report_port(dp, traced->in_port, "port", report);
    dpif_xdp_report_int(report, "length", traced->length);
    report_bytes(traced, report);
    array = dpif_xdp_report_array(report, "passes");
    for (uint32_t i = 0; i < traced->way.n && i < DP_WAY_PASSES; i++) {
        struct json *pass = dpif_xdp_report_element(array);

        report_pass(dp, &traced->way.pass[i], pass);
        report_ct(&traced->way, i, pass);
    }
    dpif_xdp_report_text(report, "verdict",
                         to_tcx ? "tcx" : end_names[end]);
    dpif_xdp_report_text(report, "reason", packet->from_socket
                         ? "received by the engine's packet socket: no "
                           "program serves the port"
                         : oxdp_counter_text(traced->reason));
    if (end == DPIF_XDP_TRACE_FORWARDED && traced->fate == DP_FATE_GROUP) {
        dpif_xdp_report_int(report, "group", traced->to);
    } else if (end == DPIF_XDP_TRACE_FORWARDED) {
        report_port(dp, traced->to, "to", report);
    }
    dpif_xdp_report_bool(report, "dropped", packet->dropped || (
                         end == DPIF_XDP_TRACE_DROPPED && !to_tcx));
    array = json_array_create_empty();
    LIST_FOR_EACH (line, node, &packet->lines) {
        json_array_add(array, json_string_create(line->text));
    }
    json_object_put(report, "engine", array);
}

/* Where the packet went, in words. */
static void
text_verdict(const struct json *packet, struct ds *ds)
{
    const char *verdict = TEXT(packet, "verdict");

    ds_put_cstr(ds, "  verdict: ");
    if (!strcmp(verdict, "tcx")) {
        ds_put_cstr(ds, "left to tcx on the same device\n");
    } else if (strcmp(verdict, "forwarded")) {
        ds_put_format(ds, "%s\n", TEXT(packet, "reason"));
    } else if (dpif_xdp_report_get(packet, "group")) {
        ds_put_format(ds, "forwarded to the ports of group %"PRIu64"\n",
                      INT(packet, "group"));
    } else {
        const char *name = TEXT(packet, "to_name");

        ds_put_format(ds, "forwarded to port %"PRIu64" (%s)\n",
                      INT(packet, "to"), name ? name : "gone");
    }
}

static void
text_pass(const struct json *pass, size_t i, struct ds *ds)
{
    const struct json *tracked = dpif_xdp_report_get(pass, "ct");
    uint64_t masks = INT(pass, "masks_walked");

    ds_put_format(ds, "  lookup %"PRIuSIZE": %s", i + 1, TEXT(pass, "found"));
    if (masks) {
        ds_put_format(ds, ", %"PRIu64" mask%s walked", masks,
                      masks == 1 ? "" : "s");
    }
    if (TEXT(pass, "ufid")) {
        ds_put_format(ds, ": %s, %s, actions:%s\n", TEXT(pass, "ufid"),
                      TEXT(pass, "match"), TEXT(pass, "actions"));
        if (TEXT(pass, "mask")) {
            ds_put_format(ds, "    mask: %s\n", TEXT(pass, "mask"));
        }
    } else {
        ds_put_cstr(ds, BOOL(pass, "gone") ? ": a flow that is gone by now\n"
                    : "\n");
    }
    for (size_t j = 0; j < N(tracked); j++) {
        ds_put_format(ds, "    ct(zone=%"PRIu64") found: %s\n",
                      INT(AT(tracked, j), "zone"),
                      TEXT(AT(tracked, j), "state"));
    }
}

void
dpif_xdp_trace_text_packet(const struct json *packet, struct ds *ds)
{
    const struct json *passes = dpif_xdp_report_get(packet, "passes");
    const struct json *lines = dpif_xdp_report_get(packet, "engine");
    const char *name = TEXT(packet, "port_name");
    uint64_t ns = INT(packet, "time_ns");
    time_t second = ns / 1000000000;
    struct tm tm;

    localtime_r(&second, &tm);
    ds_put_format(ds, "%02d:%02d:%02d.%06d %s, port %"PRIu64" (%s), %"PRIu64
                  " bytes, CPU %"PRIu64", packet %"PRIu64"\n",
                  tm.tm_hour, tm.tm_min, tm.tm_sec,
                  (int) (ns % 1000000000 / 1000), TEXT(packet, "hook"),
                  INT(packet, "port"), name ? name : "gone",
                  INT(packet, "length"), INT(packet, "cpu"),
                  INT(packet, "packet"));
    ds_put_format(ds, "  fields: %s\n", TEXT(packet, "fields"));
    for (size_t i = 0; i < N(passes); i++) {
        text_pass(AT(passes, i), i, ds);
    }
    text_verdict(packet, ds);
    for (size_t i = 0; i < N(lines); i++) {
        ds_put_format(ds, "  engine: %s\n", json_string(AT(lines, i)));
    }
}
