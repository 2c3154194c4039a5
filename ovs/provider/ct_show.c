/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-appctl xdp/ct-show: connections, by zone, and their limits. */
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
#include "ovs/state/ct.h"
#include "timeval.h"
#include "util.h"

#define INT dpif_xdp_report_get_int
#define TEXT dpif_xdp_report_get_text
#define N dpif_xdp_report_n
#define AT dpif_xdp_report_at

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

        if (zones[i].n || limited) {
            struct json *zone = dpif_xdp_report_element(array);

            dpif_xdp_report_int(zone, "zone", i);
            dpif_xdp_report_int(zone, "connections", zones[i].n);
            dpif_xdp_report_int(zone, "nat", zones[i].n_nat);
            dpif_xdp_report_int(zone, "expected", t->zones[i].n_expected);
            if (limited) {
                dpif_xdp_report_int(zone, "limit", limit);
                dpif_xdp_report_int(zone, "counted", count);
            }
        }
    }
    free(zones);
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
    dpif_xdp_report_int(report, "no_room", head->n_full);
    dpif_xdp_report_int(report, "kept", kept);
    dpif_xdp_report_int(report, "expected", dpif_xdp_ct_n_expected(dp->ct));
    dpif_xdp_report_bool(report, "tcp_sequence_check", !head->no_seq_check);
    dpif_xdp_report_bool(report, "programs_track",
                         dp->progs && oxdp_track_is_on(dp->progs));
    dpif_xdp_report_bool(report, "in_maps",
                         oxdp_ct_fd(tables, OXDP_CT_head) >= 0);
    if (oxdp_ct_limit_get(tables, DP_CT_ZONE_DEFAULT, &limit, &count)) {
        dpif_xdp_report_int(report, "default_limit", limit);
        dpif_xdp_report_int(report, "default_counted", count);
    }
    report_paths(dp, tables, report);
    report_zones(tables, dpif_xdp_ct_ticks(dp->ct, time_msec()), report);
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
        if (dpif_xdp_report_get(zone, "limit")) {
            ds_put_format(ds, " limit:%"PRIu64" counted:%"PRIu64,
                          INT(zone, "limit"), INT(zone, "counted"));
        }
        ds_put_char(ds, '\n');
    }
}
