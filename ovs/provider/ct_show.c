/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-appctl xdp/ct-show: connections, by zone, and their limits; and which
 * tier tracks. */
#include <config.h>

#include "ovs/provider/appctl.h"

#include "core/ct/ct.h"
#include "core/programs/progs.h"
#include "core/programs/track.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/json.h"
#include "ovs-thread.h"
#include "ovs/base/report.h"
#include "ovs/datapath/datapath.h"
#include "ovs/netdev/netdev_xdp.h"
#include "ovs/state/ct.h"
#include "timeval.h"
#include "util.h"

#define INT dpif_xdp_report_get_int
#define TEXT dpif_xdp_report_get_text
#define N dpif_xdp_report_n
#define AT dpif_xdp_report_at

static const char *const refusals[] = {
#define X(NAME, TEXT) #NAME,
    DP_CT_REFUSALS(X)
#undef X
};

/* What a zone has. */
struct zone {
    uint32_t n;                         /* Connections that are alive, */
    uint32_t n_nat;                     /* of them with NAT. */
};

static void
report_zones(struct oxdp_ct *tables, uint32_t now, struct json *report)
{
    const struct dp_ct_tables *t = oxdp_ct_tables(tables);
    struct zone *zones = xcalloc(DP_CT_ZONES, sizeof *zones);
    struct json *array = dpif_xdp_report_array(report, "zones");
    uint32_t position = 0, index, limit, count;

    while (oxdp_ct_next(tables, now, -1, &position, &index)) {
        zones[t->keys[index].zone].n++;
        zones[t->keys[index].zone].n_nat += !!t->keys[index].nat;
    }
    for (int i = 0; i < DP_CT_ZONES; i++) {
        bool limited = oxdp_ct_limit_get(tables, i, &limit, &count);

        if (zones[i].n || limited || t->zones[i].n_refused) {
            struct json *zone = dpif_xdp_report_element(array);

            dpif_xdp_report_int(zone, "zone", i);
            dpif_xdp_report_int(zone, "connections", zones[i].n);
            dpif_xdp_report_int(zone, "nat", zones[i].n_nat);
            dpif_xdp_report_int(zone, "expected", t->zones[i].n_expected);
            dpif_xdp_report_int(zone, "refused",
                                DP_READ_ONCE(t->zones[i].n_refused));
            if (limited) {
                dpif_xdp_report_int(zone, "limit", limit);
                dpif_xdp_report_int(zone, "counted", count);
            }
        }
    }
    free(zones);
}

/* Why connections were not made. */
static void
report_refusals(const struct dp_ct_head *head, struct json *report)
{
    struct json *object = dpif_xdp_report_object(report, "refused");

    for (int i = 0; i < DP_CT_N_REFUSALS; i++) {
        dpif_xdp_report_enum(object, refusals[i],
                             DP_READ_ONCE(head->n_refused[i]));
    }
}

/* What programs on one hook have counted. */
struct tier {
    uint32_t n_ports;
    uint64_t n[DP_N_COUNTERS];
};

/* Adds what the program of 'port' has counted to the tier of its hook. */
static void
add_port(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
         struct tier tiers[DPIF_XDP_HOOK_BOTH + 1])
{
    uint64_t n[DP_N_COUNTERS];
    int hook;

    atomic_read(&port->hook, &hook);
    if (hook <= DPIF_XDP_HOOK_BOTH && port->device.ifindex
        && !oxdp_progs_get_counters(dp->progs, port->device.ifindex, n)) {
        tiers[hook].n_ports++;
        for (int i = 0; i < DP_N_COUNTERS; i++) {
            tiers[hook].n[i] += n[i];
        }
    }
}

/* What programs on one hook tracked, and why they left packets to the
 * engine. */
static void
report_tier(const char *hook, const struct tier *tier, struct json *report)
{
    struct json *reasons;

    dpif_xdp_report_text(report, "tier", hook);
    dpif_xdp_report_int(report, "ports", tier->n_ports);
    dpif_xdp_report_int(report, "tracked", tier->n[DP_COUNTER_TRACKED]);
    dpif_xdp_report_int(report, "path_hits", tier->n[DP_COUNTER_PATH_HIT]);
    dpif_xdp_report_int(report, "path_misses", tier->n[DP_COUNTER_PATH_MISS]);
    reasons = dpif_xdp_report_object(report, "to_engine");
    for (int i = DP_REASON_UP_CT; i <= DP_REASON_UP_CT_NEW; i++) {
        dpif_xdp_report_enum(reasons, oxdp_counter_name(i), tier->n[i]);
    }
}

static void
report_programs(struct dpif_xdp_dp *dp, struct json *tiers)
{
    struct tier sums[DPIF_XDP_HOOK_BOTH + 1] = { { 0 } };
    const struct dpif_xdp_query all = { .port = NULL };
    struct dpif_xdp_port **ports;
    size_t n;

    dpif_xdp_port_lock(dp);
    ports = dpif_xdp_query_ports(dp, &all, &n);
    for (size_t i = 0; i < n; i++) {
        add_port(dp, ports[i], sums);
    }
    free(ports);
    dpif_xdp_port_unlock(dp);
    for (int i = 0; i <= DPIF_XDP_HOOK_BOTH; i++) {
        if (sums[i].n_ports) {
            report_tier(dpif_xdp_hook_to_string(i), &sums[i],
                        dpif_xdp_report_element(tiers));
        }
    }
}

/* What each tier tracked: programs since their ports were opened. */
static void
report_tiers(struct dpif_xdp_dp *dp, struct json *report)
{
    struct json *tiers = dpif_xdp_report_array(report, "tiers"), *engine;

    if (dp->progs) {
        report_programs(dp, tiers);
    }
    engine = dpif_xdp_report_element(tiers);
    dpif_xdp_report_text(engine, "tier", "engine");
    dpif_xdp_report_int(engine, "tracked", dpif_xdp_ct_n_tracked(dp->ct));
}

/* The path cache (dp/path.h). */
static void
report_paths(const struct dpif_xdp_dp *dp, const struct oxdp_ct *tables,
             struct json *report)
{
    const struct dp_path_tables *paths = oxdp_ct_paths(tables);
    struct json *object;
    uint64_t n[DP_N_COUNTERS];

    if (!paths || !dp->progs) {
        return;
    }
    object = dpif_xdp_report_object(report, "paths");
    oxdp_progs_get_totals(dp->progs, n);
    dpif_xdp_report_int(object, "microflows",
                        DP_READ_ONCE(paths->path_head->n_micros));
    dpif_xdp_report_int(object, "room", paths->n_micros);
    dpif_xdp_report_int(object, "paths",
                        DP_READ_ONCE(paths->path_head->n_paths));
    dpif_xdp_report_int(object, "no_room",
                        DP_READ_ONCE(paths->path_head->n_full));
    dpif_xdp_report_int(object, "hits", n[DP_COUNTER_PATH_HIT]);
    dpif_xdp_report_int(object, "misses", n[DP_COUNTER_PATH_MISS]);
}

void
dpif_xdp_ct_show_report(struct dpif_xdp_dp *dp,
                        const struct dpif_xdp_query *query OVS_UNUSED,
                        struct json *report)
{
    struct oxdp_ct *tables = dpif_xdp_ct_tables(dp->ct);
    const struct dp_ct_head *head;
    uint32_t limit, count, kept, lost;

    dpif_xdp_report_bool(report, "used", tables);
    if (!tables) {
        return;
    }
    head = oxdp_ct_tables(tables)->head;
    oxdp_ct_inherited(tables, &kept, &lost);
    dpif_xdp_report_int(report, "connections", head->n_conns);
    dpif_xdp_report_int(report, "room", head->n);
    dpif_xdp_report_int(report, "bytes", oxdp_ct_bytes(head->n)
                        + (oxdp_ct_paths(tables)
                           ? oxdp_ct_path_bytes(head->n) : 0));
    dpif_xdp_report_int(report, "max_connections", head->maxconns);
    dpif_xdp_report_int(report, "no_room",
                        head->n_refused[DP_CT_REFUSED_SHARE]
                        + head->n_refused[DP_CT_REFUSED_FULL]);
    dpif_xdp_report_int(report, "held", head->n_held);
    dpif_xdp_report_int(report, "kept", kept);
    dpif_xdp_report_int(report, "expected", dpif_xdp_ct_n_expected(dp->ct));
    dpif_xdp_report_bool(report, "tcp_sequence_check",
                         !(head->no_seq_check & DP_CT_SEQ_DISABLED));
    dpif_xdp_report_bool(report, "programs_track",
                         dp->progs && oxdp_track_is_on(dp->progs));
    dpif_xdp_report_bool(report, "in_maps",
                         oxdp_ct_fd(tables, OXDP_CT_head) >= 0);
    if (oxdp_ct_limit_get(tables, DP_CT_ZONE_DEFAULT, &limit, &count)) {
        dpif_xdp_report_int(report, "default_limit", limit);
        dpif_xdp_report_int(report, "default_counted", count);
    }
    report_refusals(head, report);
    report_tiers(dp, report);
    report_paths(dp, tables, report);
    report_zones(tables, dpif_xdp_ct_ticks(dp->ct, time_msec()), report);
}

/* The numbers of 'report' under the names of constants, those that are not
 * 0. */
static void
text_reasons(const struct json *report, const char *const names[], int n,
             struct ds *ds)
{
    size_t before = ds->length;

    for (int i = 0; i < n; i++) {
        char *key = dpif_xdp_report_key(names[i]);

        if (INT(report, key)) {
            ds_put_format(ds, " %s:%"PRIu64, key, INT(report, key));
        }
        free(key);
    }
    ds_put_cstr(ds, ds->length == before ? " none\n" : "\n");
}

static void
text_tiers(const struct json *tiers, struct ds *ds)
{
    const char *names[DP_N_REASONS];
    int n_names = 0;

    for (int i = DP_REASON_UP_CT; i <= DP_REASON_UP_CT_NEW; i++) {
        names[n_names++] = oxdp_counter_name(i);
    }
    for (size_t i = 0; i < N(tiers); i++) {
        const struct json *tier = AT(tiers, i);

        ds_put_format(ds, "  %s: tracked:%"PRIu64, TEXT(tier, "tier"),
                      INT(tier, "tracked"));
        if (!dpif_xdp_report_get(tier, "to_engine")) {
            ds_put_char(ds, '\n');
            continue;
        }
        ds_put_format(ds, " path-hits:%"PRIu64" path-misses:%"PRIu64
                      " to the engine:", INT(tier, "path_hits"),
                      INT(tier, "path_misses"));
        text_reasons(dpif_xdp_report_get(tier, "to_engine"), names, n_names,
                     ds);
    }
}

void
dpif_xdp_ct_show_text(const struct json *report, struct ds *ds)
{
    const struct json *zones, *paths;

    ds_put_format(ds, "%s@%s:\n", TEXT(report, "type"), TEXT(report, "name"));
    if (!dpif_xdp_report_get_bool(report, "used")) {
        ds_put_cstr(ds, "  no flow had ct() yet\n");
        return;
    }
    ds_put_format(ds, "  connections:%"PRIu64" room:%"PRIu64" (%"PRIu64" MB%s)"
                  " max:%"PRIu64" no-room:%"PRIu64"\n",
                  INT(report, "connections"), INT(report, "room"),
                  INT(report, "bytes") >> 20,
                  dpif_xdp_report_get_bool(report, "in_maps")
                  ? "" : ", lost when the daemon ends",
                  INT(report, "max_connections"), INT(report, "no_room"));
    ds_put_format(ds, "  held:%"PRIu64" refused:", INT(report, "held"));
    text_reasons(dpif_xdp_report_get(report, "refused"), refusals,
                 ARRAY_SIZE(refusals), ds);
    ds_put_format(ds, "  kept over the last restart:%"PRIu64" expected by "
                  "helpers:%"PRIu64" tcp-sequence-check:%s "
                  "programs-track:%s\n",
                  INT(report, "kept"), INT(report, "expected"),
                  dpif_xdp_report_get_bool(report, "tcp_sequence_check")
                  ? "yes" : "no",
                  dpif_xdp_report_get_bool(report, "programs_track")
                  ? "yes" : "no");
    if (dpif_xdp_report_get(report, "default_limit")) {
        ds_put_format(ds, "  all zones without a limit: limit:%"PRIu64
                      " counted:%"PRIu64"\n", INT(report, "default_limit"),
                      INT(report, "default_counted"));
    }
    text_tiers(dpif_xdp_report_get(report, "tiers"), ds);
    paths = dpif_xdp_report_get(report, "paths");
    if (paths) {
        ds_put_format(ds, "  path cache: microflows:%"PRIu64" room:%"PRIu64
                      " paths:%"PRIu64" no-room:%"PRIu64" hits:%"PRIu64
                      " misses:%"PRIu64"\n", INT(paths, "microflows"),
                      INT(paths, "room"), INT(paths, "paths"),
                      INT(paths, "no_room"), INT(paths, "hits"),
                      INT(paths, "misses"));
    }
    zones = dpif_xdp_report_get(report, "zones");
    for (size_t i = 0; i < N(zones); i++) {
        const struct json *zone = AT(zones, i);

        ds_put_format(
            ds, "  zone %"PRIu64": connections:%"PRIu64" nat:%"PRIu64,
            INT(zone, "zone"), INT(zone, "connections"), INT(zone, "nat"));
        if (INT(zone, "expected")) {
            ds_put_format(ds, " expected:%"PRIu64, INT(zone, "expected"));
        }
        if (INT(zone, "refused")) {
            ds_put_format(ds, " refused:%"PRIu64, INT(zone, "refused"));
        }
        if (dpif_xdp_report_get(zone, "limit")) {
            ds_put_format(ds, " limit:%"PRIu64" counted:%"PRIu64,
                          INT(zone, "limit"), INT(zone, "counted"));
        }
        ds_put_char(ds, '\n');
    }
}
