/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-appctl xdp/show: the parts of a datapath, and how full its tables
 * are. */
#include <config.h>

#include "ovs/provider/appctl.h"

#include "core/ct/ct.h"
#include "core/programs/progs.h"
#include "core/programs/tcx.h"
#include "core/xsk/sock.h"
#include "core/xsk/umem.h"
#include "dp/capability.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/json.h"
#include "ovs-thread.h"
#include "ovs/datapath/datapath.h"
#include "ovs/base/report.h"
#include "ovs/engine/engine.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/netdev/netdev_xdp.h"
#include "ovs/ports/ports.h"
#include "ovs/provider/provider_private.h"
#include "ovs/state/ct.h"
#include "smap.h"

#define INT dpif_xdp_report_get_int
#define TEXT dpif_xdp_report_get_text
#define N dpif_xdp_report_n
#define AT dpif_xdp_report_at

static const char *const key_groups[] = {
#define X(NAME, TEXT) TEXT,
    DP_KEY_GROUPS(X)
#undef X
};

static const char *const ops[] = {
#define X(NAME, NEEDS, TEXT) TEXT,
    DP_OPS(X)
#undef X
};

static void
report_rxq(const struct dpif_xdp_rxq *rxq, size_t number, struct json *queues)
{
    struct json *queue = dpif_xdp_report_element(queues);
    uint64_t n;

    atomic_read_relaxed(&CONST_CAST(struct dpif_xdp_rxq *, rxq)->n_packets,
                        &n);
    dpif_xdp_report_int(queue, "queue", number);
    dpif_xdp_report_int(queue, "received", n);
    if (rxq->sock) {
        struct oxdp_sock_stats stats;

        oxdp_sock_get_stats(rxq->sock, &stats);
        dpif_xdp_report_int(queue, "sent", stats.tx_packets);
        dpif_xdp_report_int(queue, "send_drops",
                            oxdp_sock_send_drops(&stats));
        dpif_xdp_report_int(queue, "ring_full", stats.rx_ring_full);
        dpif_xdp_report_int(queue, "no_frames", stats.rx_fill_empty);
        dpif_xdp_report_int(queue, "other_drops", stats.rx_dropped);
    }
}

/* What is wrong with 'port': of an internal port, its interface may have a
 * warning that its device has not. */
static void
report_complaints(const struct dpif_xdp_port *port,
                  const struct smap *of_device, struct json *report)
{
    const char *warning = smap_get(of_device, "xdp-warning");
    struct smap status = SMAP_INITIALIZER(&status);

    if (!warning && port->netdev != port->dev) {
        netdev_get_status(port->netdev, &status);
        warning = smap_get(&status, "xdp-warning");
    }
    dpif_xdp_report_text(report, "error", smap_get(of_device, "xdp-error"));
    dpif_xdp_report_text(report, "warning", warning);
    smap_destroy(&status);
}

static void
report_device(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
              struct json *report)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct smap status = SMAP_INITIALIZER(&status);

    netdev_get_status(port->dev, &status);
    dpif_xdp_report_text(report, "mode",
                         smap_get_def(&status, "xdp-mode", "none"));
    dpif_xdp_report_text(report, "hook",
                         smap_get_def(&status, "xdp-hook", "none"));
    report_complaints(port, &status, report);
    smap_destroy(&status);

    dpif_xdp_report_bool(report, "open",
                         dpif_xdp_port_is_open(port));
    dpif_xdp_report_int(report, "ifindex", port->device.ifindex);
    dpif_xdp_report_bool(report, "redirect_target", port->redirects);
    dpif_xdp_report_text(report, "obj", port->obj);
    if (dp->progs
        && oxdp_tcx_can_output(dp->progs, odp_to_u32(port->port_no))) {
        dpif_xdp_report_text(report, "tcx_output",
                             port->no_shortcut ? "device" : "peer");
        dpif_xdp_report_text(report, "tcx_output_reason", port->no_shortcut);
    }
}

/* Of a port that may be one of tunnels. */
static void
report_tunnels(struct dpif_xdp_port *port, struct json *report)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *error = port->host_tunnel.side.text;

    if (port->merges || port->gro_side.text) {
        dpif_xdp_report_bool(report, "gro", port->merges);
        dpif_xdp_report_text(report, "gro_error", port->gro_side.text);
    }
    if (dpif_xdp_host_tunnel_is(port)) {
        struct json *host = dpif_xdp_report_object(report, "host_tunnel");
        uint64_t n_sent, n_dropped;

        dpif_xdp_sender_get_stats(port, &n_sent, &n_dropped);
        dpif_xdp_report_text(host, "device", port->host_tunnel.name);
        dpif_xdp_report_int(host, "sent", n_sent);
        dpif_xdp_report_int(host, "send_drops", n_dropped);
    }
    dpif_xdp_report_text(report, "host_tunnel_error", error);
}

static void
report_port(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
            struct json *ports)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct json *report = dpif_xdp_report_element(ports);
    struct json *queues;

    dpif_xdp_report_int(report, "port", odp_to_u32(port->port_no));
    dpif_xdp_report_text(report, "name", netdev_get_name(port->netdev));
    dpif_xdp_report_text(report, "type", port->type);
    dpif_xdp_report_bool(report, "device", port->is_device);
    if (port->is_device) {
        report_device(dp, port, report);
    } else {
        report_tunnels(port, report);
    }
    if (port->is_device && !dpif_xdp_port_n_rxqs(port)
        && dpif_xdp_port_is_open(port)) {
        struct json *engine = dpif_xdp_report_object(report, "engine");
        uint64_t n_sent, n_dropped;
        bool has_sock = dpif_xdp_sender_get_stats(port, &n_sent, &n_dropped);

        dpif_xdp_report_int(engine, "sent", n_sent);
        dpif_xdp_report_int(engine, "send_drops", n_dropped);
        dpif_xdp_report_text(engine, "through",
                             has_sock ? "AF_XDP" : "AF_PACKET");
    }
    queues = dpif_xdp_report_array(report, "queues");
    for (size_t i = 0; i < dpif_xdp_port_n_rxqs(port); i++) {
        report_rxq(dpif_xdp_port_rxq(port, i), i, queues);
    }
}

/* The texts of the bits of 'bits', as an array. */
static void
report_bits(uint64_t bits, const char *const texts[], int n,
            struct json *array)
{
    for (int i = 0; i < n; i++) {
        if (bits & UINT64_C(1) << i) {
            json_array_add(array, json_string_create(texts[i]));
        }
    }
}

/* What a program can parse and execute, and what of it is left out while it
 * runs because no flow needs it. */
static void
report_capability(const struct dp_capability *capability,
                  const struct dp_omit *omit, struct json *report)
{
    struct json *omits;
    struct json *parts;

    report_bits(capability->key_groups, key_groups, DP_N_KEY_GROUPS,
                dpif_xdp_report_array(report, "parses"));
    report_bits(capability->ops, ops, DP_N_OPS,
                dpif_xdp_report_array(report, "executes"));
    omits = dpif_xdp_report_object(report, "omits");
    dpif_xdp_report_int(omits, "key_words", count_1bits(omit->words));
    dpif_xdp_report_int(omits, "of_key_words", DP_KEY_WORDS);
    parts = dpif_xdp_report_array(omits, "parts");
    report_bits(omit->parts & capability->key_groups, key_groups,
                DP_N_KEY_GROUPS, parts);
    report_bits(omit->ops & capability->ops, ops, DP_N_OPS, parts);
    if (omit->parts & DP_PART_FRAGS) {
        json_array_add(parts, json_string_create("frames in several buffers"));
    }
}

static void
report_programs(const struct dpif_xdp_dp *dp, struct json *report)
{
    struct json *programs = dpif_xdp_report_array(report, "programs");
    struct oxdp_prog_info info;
    struct dp_omit omit;

    if (!dp->progs) {
        return;
    }
    omit = oxdp_progs_omitted(dp->progs);
    for (uint32_t i = 0; !oxdp_progs_get_info(dp->progs, i, &info); i++) {
        struct json *program = dpif_xdp_report_element(programs);

        dpif_xdp_report_text(program, "name", info.name);
        dpif_xdp_report_int(program, "id", info.id);
        dpif_xdp_report_int(program, "bpf_bytes", info.xlated_bytes);
        dpif_xdp_report_int(program, "machine_code_bytes", info.jited_bytes);
        dpif_xdp_report_text(program, "file", info.file);
        if (dp->fastpath) {
            report_capability(&info.capability, &omit, program);
        }
    }
}

/* How full the tables of connections and of the path cache are. */
static void
report_connections(const struct dpif_xdp_dp *dp, struct json *report)
{
    struct oxdp_ct *tables = dpif_xdp_ct_tables(dp->ct);
    const struct dp_path_tables *paths;
    const struct dp_ct_head *head;
    struct json *object;

    if (!tables) {
        return;
    }
    head = oxdp_ct_tables(tables)->head;
    paths = oxdp_ct_paths(tables);
    object = dpif_xdp_report_object(report, "tracking");
    dpif_xdp_report_int(object, "connections", DP_READ_ONCE(head->n_conns));
    dpif_xdp_report_int(object, "max_connections", head->n);
    if (paths) {
        dpif_xdp_report_int(object, "microflows",
                            DP_READ_ONCE(paths->path_head->n_micros));
        dpif_xdp_report_int(object, "max_microflows", paths->n_micros);
        dpif_xdp_report_int(object, "paths",
                            DP_READ_ONCE(paths->path_head->n_paths));
        dpif_xdp_report_int(object, "max_paths", paths->n_paths);
    }
}

void
dpif_xdp_show_report(struct dpif_xdp_dp *dp,
                     const struct dpif_xdp_query *query, struct json *report)
{
    struct dpif_xdp_port **sorted;
    struct json *ports;
    size_t n;

    dpif_xdp_report_int(report, "flows", dpif_xdp_flows_n(&dp->flows));
    dpif_xdp_port_lock(dp);
    dpif_xdp_config_report(dp, report);
    if (dp->packets) {
        struct oxdp_umem *umem = dpif_xdp_packets_umem(dp->packets);
        struct json *memory = dpif_xdp_report_object(report, "umem");

        dpif_xdp_report_int(memory, "frames", oxdp_umem_n_frames(umem));
        dpif_xdp_report_int(memory, "frame_bytes", OXDP_FRAME_SIZE);
        dpif_xdp_report_int(memory, "free", oxdp_umem_n_free(umem));
    }
    report_programs(dp, report);
    if (dp->progs) {
        dpif_xdp_report_text(report, "pinned", oxdp_progs_pinned(dp->progs));
        dpif_xdp_report_text(report, "not_pinned",
                             oxdp_progs_unpinned(dp->progs));
    }
    dpif_xdp_flow_lock(dp);
    dpif_xdp_fastpath_report(dp, report);
    dpif_xdp_flow_unlock(dp);
    report_connections(dp, report);
    dpif_xdp_order_report(dp, report);
    dpif_xdp_threads_report(dp, report);
    ports = dpif_xdp_report_array(report, "ports");
    sorted = dpif_xdp_query_ports(dp, query, &n);
    for (size_t i = 0; i < n; i++) {
        report_port(dp, sorted[i], ports);
    }
    free(sorted);
    dpif_xdp_port_unlock(dp);
}

/* The texts of array 'key', after 'before'. */
static void
text_list(const struct json *report, const char *key, const char *before,
          struct ds *ds)
{
    const struct json *array = dpif_xdp_report_get(report, key);

    ds_put_cstr(ds, before);
    for (size_t i = 0; i < N(array); i++) {
        ds_put_format(ds, "%s%s", i ? "; " : "",
                      json_string(AT(array, i)));
    }
    ds_put_char(ds, '\n');
}

static void
text_programs(const struct json *report, struct ds *ds)
{
    const struct json *programs = dpif_xdp_report_get(report, "programs");

    for (size_t i = 0; i < N(programs); i++) {
        const struct json *program = AT(programs, i);
        const struct json *omits = dpif_xdp_report_get(program, "omits");
        const char *file = TEXT(program, "file");

        ds_put_format(ds, "  program: %s id %"PRIu64", %"PRIu64" bytes of "
                      "BPF, %"PRIu64" of machine code%s%s\n",
                      TEXT(program, "name"), INT(program, "id"),
                      INT(program, "bpf_bytes"),
                      INT(program, "machine_code_bytes"),
                      file ? ", of " : "", file ? file : "");
        if (omits) {
            text_list(program, "parses", "    parses: ", ds);
            text_list(program, "executes", "    executes: ", ds);
            ds_put_format(ds, "    omits: %"PRIu64" of %"PRIu64" key words",
                          INT(omits, "key_words"), INT(omits, "of_key_words"));
            text_list(omits, "parts",
                      N(dpif_xdp_report_get(omits, "parts")) ? "; " : "", ds);
        }
    }
}

static void
text_pinned(const struct json *report, struct ds *ds)
{
    const char *pinned = TEXT(report, "pinned");
    const char *not_pinned = TEXT(report, "not_pinned");

    if (pinned) {
        ds_put_format(ds, "  when the daemon ends: programs go on, pinned in "
                      "%s\n", pinned);
    } else if (not_pinned) {
        ds_put_format(ds, "  when the daemon ends: programs end, too: %s\n",
                      not_pinned);
    }
}

static void
text_fast_path(const struct json *report, struct ds *ds)
{
    const struct json *fast_path = dpif_xdp_report_get(report, "fast_path");
    const struct json *reasons;

    if (!fast_path) {
        return;
    }
    ds_put_format(ds, "  fast path: %"PRIu64" of %"PRIu64" flows, "
                  "%"PRIu64" of %"PRIu64" masks, "
                  "%"PRIu64" of %"PRIu64" groups\n",
                  INT(fast_path, "flows"), INT(fast_path, "max_flows"),
                  INT(fast_path, "masks"), INT(fast_path, "max_masks"),
                  INT(fast_path, "groups"), INT(fast_path, "max_groups"));
    reasons = dpif_xdp_report_get(fast_path, "flows_by_reason");
    for (size_t i = 0; i < N(reasons); i++) {
        const struct json *reason = AT(reasons, i);

        if (INT(reason, "flows")) {
            ds_put_format(ds, "    flows: %"PRIu64" %s%s\n",
                          INT(reason, "flows"),
                          strcmp(TEXT(reason, "tier"), "engine")
                          ? "" : "engine: ", TEXT(reason, "text"));
        }
    }
}

static void
text_connections(const struct json *report, struct ds *ds)
{
    const struct json *tracking = dpif_xdp_report_get(report, "tracking");

    if (!tracking) {
        return;
    }
    ds_put_format(ds, "  connections: %"PRIu64" of %"PRIu64,
                  INT(tracking, "connections"),
                  INT(tracking, "max_connections"));
    if (dpif_xdp_report_get(tracking, "paths")) {
        ds_put_format(ds, ", path cache: %"PRIu64" of %"PRIu64" microflows, "
                      "%"PRIu64" of %"PRIu64" paths",
                      INT(tracking, "microflows"),
                      INT(tracking, "max_microflows"), INT(tracking, "paths"),
                      INT(tracking, "max_paths"));
    }
    ds_put_char(ds, '\n');
}

static void
text_threads(const struct json *report, struct ds *ds)
{
    const struct json *threads = dpif_xdp_report_get(report, "threads");

    for (size_t i = 0; i < N(threads); i++) {
        const struct json *thread = AT(threads, i);

        ds_put_format(ds, "  thread %"PRIu64": ", INT(thread, "thread"));
        if (dpif_xdp_report_get(thread, "cpu")) {
            ds_put_format(ds, "cpu %"PRIu64", ", INT(thread, "cpu"));
        }
        ds_put_format(ds, "%"PRIu64" queues, slept %"PRIu64" times, "
                      "%"PRIu64" ms of CPU time\n", INT(thread, "queues"),
                      INT(thread, "sleeps"), INT(thread, "cpu_ms"));
    }
}

static void
text_device(const struct json *port, struct ds *ds)
{
    const char *obj = TEXT(port, "obj");
    const char *tcx_output = TEXT(port, "tcx_output");
    const char *reason = TEXT(port, "tcx_output_reason");

    ds_put_format(ds, " xdp-mode=%s%s xdp-hook=%s queues=%"PRIuSIZE
                  " redirect-target=%s", TEXT(port, "mode"),
                  dpif_xdp_report_get_bool(port, "open") ? "" : ", closed",
                  TEXT(port, "hook"), N(dpif_xdp_report_get(port, "queues")),
                  dpif_xdp_report_get_bool(port, "redirect_target")
                  ? "yes" : "no");
    if (obj) {
        ds_put_format(ds, " xdp-obj=%s", obj);
    }
    if (tcx_output) {
        ds_put_format(ds, " tcx-output=%s%s%s%s", tcx_output,
                      reason ? " (" : "", reason ? reason : "",
                      reason ? ")" : "");
    }
}

static void
text_tunnel(const struct json *port, struct ds *ds)
{
    const struct json *host = dpif_xdp_report_get(port, "host_tunnel");
    const char *error = TEXT(port, "gro_error");

    if (dpif_xdp_report_get(port, "gro")) {
        ds_put_format(ds, " gro=%s%s%s%s",
                      dpif_xdp_report_get_bool(port, "gro") ? "yes" : "no",
                      error ? " (" : "", error ? error : "",
                      error ? ")" : "");
    }
    error = TEXT(port, "host_tunnel_error");
    if (host) {
        ds_put_format(ds, " host-tunnel=%s sent:%"PRIu64" send-drops:%"PRIu64,
                      TEXT(host, "device"), INT(host, "sent"),
                      INT(host, "send_drops"));
    } else if (error) {
        ds_put_format(ds, " host-tunnel=none (%s)", error);
    }
}

static void
text_queue(const struct json *queue, struct ds *ds)
{
    ds_put_format(ds, "    queue %"PRIu64": received:%"PRIu64,
                  INT(queue, "queue"), INT(queue, "received"));
    if (dpif_xdp_report_get(queue, "sent")) {
        ds_put_format(ds, " sent:%"PRIu64" send-drops:%"PRIu64
                      " ring-full:%"PRIu64" no-frames:%"PRIu64
                      " other-drops:%"PRIu64, INT(queue, "sent"),
                      INT(queue, "send_drops"), INT(queue, "ring_full"),
                      INT(queue, "no_frames"), INT(queue, "other_drops"));
    }
    ds_put_char(ds, '\n');
}

static void
text_port(const struct json *port, struct ds *ds)
{
    static const char *const complaints[] = { "error", "warning" };
    const struct json *engine = dpif_xdp_report_get(port, "engine");
    const struct json *queues = dpif_xdp_report_get(port, "queues");

    ds_put_format(ds, "  port %"PRIu64": %s (%s)", INT(port, "port"),
                  TEXT(port, "name"), TEXT(port, "type"));
    if (dpif_xdp_report_get_bool(port, "device")) {
        text_device(port, ds);
    }
    text_tunnel(port, ds);
    ds_put_char(ds, '\n');
    for (size_t i = 0; i < ARRAY_SIZE(complaints); i++) {
        const char *said = TEXT(port, complaints[i]);

        if (said) {
            ds_put_format(ds, "    %s: %s\n", complaints[i], said);
        }
    }
    if (engine) {
        ds_put_format(ds, "    engine: sent:%"PRIu64" send-drops:%"PRIu64
                      " through:%s\n", INT(engine, "sent"),
                      INT(engine, "send_drops"), TEXT(engine, "through"));
    }
    for (size_t i = 0; i < N(queues); i++) {
        text_queue(AT(queues, i), ds);
    }
}

static void
text_order(const struct json *report, struct ds *ds)
{
    const struct json *order = dpif_xdp_report_get(report, "order");

    if (order && TEXT(order, "device")) {
        ds_put_format(ds, "  order of TCP's packets: kept, %"PRIu64" moved by "
                      "%s, %"PRIu64" lost there\n", INT(order, "moved"),
                      TEXT(order, "device"), INT(order, "lost"));
    } else if (order) {
        ds_put_format(ds, "  order of TCP's packets: not kept (%s)\n",
                      TEXT(order, "error"));
    }
}

void
dpif_xdp_show_text(const struct json *report, struct ds *ds)
{
    const struct json *umem = dpif_xdp_report_get(report, "umem");
    const struct json *warnings = dpif_xdp_report_get(report, "warnings");
    const struct json *ports = dpif_xdp_report_get(report, "ports");

    ds_put_format(ds, "%s@%s: %"PRIu64" flows\n", TEXT(report, "type"),
                  TEXT(report, "name"), INT(report, "flows"));
    for (size_t i = 0; i < N(warnings); i++) {
        ds_put_format(ds, "  warning: %s\n", json_string(AT(warnings, i)));
    }
    if (umem) {
        ds_put_format(ds, "  umem: %"PRIu64" frames of %"PRIu64" bytes, "
                      "%"PRIu64" free\n", INT(umem, "frames"),
                      INT(umem, "frame_bytes"), INT(umem, "free"));
    }
    text_programs(report, ds);
    text_pinned(report, ds);
    text_fast_path(report, ds);
    text_connections(report, ds);
    text_order(report, ds);
    text_threads(report, ds);
    for (size_t i = 0; i < N(ports); i++) {
        text_port(AT(ports, i), ds);
    }
}
