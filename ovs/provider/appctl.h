/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of `ovs-appctl xdp/...`.
 *
 * A command makes one document of each datapath (base/report.h) and prints
 * it: as JSON, or as text, which is made of the document alone.  So both say
 * the same. */
#ifndef DPIF_XDP_APPCTL_H
#define DPIF_XDP_APPCTL_H 1

#include <stdbool.h>
#include <stddef.h>

struct dpif_xdp_dp;
struct dpif_xdp_port;
struct ds;
struct json;

/* The names and options of a request. */
struct dpif_xdp_query {
    const char *dp;             /* Name of a datapath; NULL: all. */
    const char *port;           /* Name or number of a port; NULL: all. */
    const char *flow;           /* A flow, as dpctl/dump-flows prints it, or
                                 * its unique id; NULL: none. */
    bool nonzero;               /* Leave out counters that are 0. */
    bool sum;                   /* All ports together. */
};

/* query.c: the ports of 'dp' that 'query' asks for, by number.  The caller
 * frees the array, and holds dp->port_mutex. */
struct dpif_xdp_port **dpif_xdp_query_ports(const struct dpif_xdp_dp *,
                                            const struct dpif_xdp_query *,
                                            size_t *n);

/* query.c: whether 'name' is that of 'dp', with or without its type. */
bool dpif_xdp_query_is_dp(const struct dpif_xdp_dp *dp, const char *name);

/* show.c: xdp/show. */
void dpif_xdp_show_report(struct dpif_xdp_dp *, const struct dpif_xdp_query *,
                          struct json *report);
void dpif_xdp_show_text(const struct json *report, struct ds *);

/* stats.c: xdp/stats. */
void dpif_xdp_stats_report(struct dpif_xdp_dp *, const struct dpif_xdp_query *,
                           struct json *report);
void dpif_xdp_stats_text(const struct json *report, struct ds *);

/* why.c: xdp/why; whether 'name' looks like a flow. */
void dpif_xdp_why_report(struct dpif_xdp_dp *, const struct dpif_xdp_query *,
                         struct json *report);
void dpif_xdp_why_text(const struct json *report, struct ds *);
bool dpif_xdp_is_flow(const char *name);

/* ct_show.c: xdp/ct-show. */
void dpif_xdp_ct_show_report(struct dpif_xdp_dp *,
                             const struct dpif_xdp_query *,
                             struct json *report);
void dpif_xdp_ct_show_text(const struct json *report, struct ds *);

#endif /* ovs/provider/appctl.h */
