/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-appctl xdp/...: reports of the datapath, as text and as JSON.
 *
 * docs/reference/xdp-appctl.md describes the commands. */
#include <config.h>

#include "ovs/provider/appctl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "openvswitch/dynamic-string.h"
#include "openvswitch/json.h"
#include "ovs-thread.h"
#include "ovs/base/compat.h"
#include "ovs/base/report.h"
#include "ovs/datapath/datapath.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/provider/provider_private.h"
#include "ovs/provider/trace.h"
#include "core/programs/progs.h"
#include "netdev.h"
#include "unixctl.h"

#define INT dpif_xdp_report_get_int
#define TEXT dpif_xdp_report_get_text
#define N dpif_xdp_report_n
#define AT dpif_xdp_report_at

/* What a command takes besides -f and DATAPATH. */
enum takes {
    TAKES_PORT = 1 << 0,                /* PORT. */
    TAKES_COUNTERS = 1 << 1,            /* --nonzero, --sum. */
    TAKES_FLOW = 1 << 2,                /* FLOW, instead of PORT. */
};

struct command {
    const char *name;
    unsigned int takes;                 /* enum takes. */

    /* Puts what the command says about one datapath into 'report', which has
     * its type and name. */
    void (*report)(struct dpif_xdp_dp *, const struct dpif_xdp_query *,
                   struct json *report);

    /* Prints that as text. */
    void (*text)(const struct json *report, struct ds *);
};

/* A call of a command. */
struct request {
    const struct command *command;
    struct dpif_xdp_query query;
    bool json;
    bool pretty;
};

static void
report_masks(struct dpif_xdp_dp *dp,
             const struct dpif_xdp_query *query OVS_UNUSED,
             struct json *report)
{
    dpif_xdp_flow_lock(dp);
    dpif_xdp_fastpath_report_masks(dp, report);
    dpif_xdp_flow_unlock(dp);
}

static void
text_masks(const struct json *report, struct ds *ds)
{
    const struct json *masks = dpif_xdp_report_get(report, "masks");

    ds_put_format(ds, "%s@%s:\n", TEXT(report, "type"), TEXT(report, "name"));
    for (size_t i = 0; i < N(masks); i++) {
        const struct json *mask = AT(masks, i);

        ds_put_format(ds, "  %"PRIu64": flows:%"PRIu64" hits:%"PRIu64" %s\n",
                      INT(mask, "position"), INT(mask, "flows"),
                      INT(mask, "hits"), TEXT(mask, "fields"));
    }
}

static void
report_bonds(struct dpif_xdp_dp *dp,
             const struct dpif_xdp_query *query OVS_UNUSED,
             struct json *report)
{
    dpif_xdp_bonds_report(&dp->bonds, report);
}

static void
text_bonds(const struct json *report, struct ds *ds)
{
    const struct json *bonds = dpif_xdp_report_get(report, "bonds");

    for (size_t i = 0; i < N(bonds); i++) {
        const struct json *bond = AT(bonds, i);
        const struct json *buckets = dpif_xdp_report_get(bond, "buckets");

        ds_put_format(ds, "bond %"PRIu64"\n", INT(bond, "bond"));
        for (size_t j = 0; j < N(buckets); j++) {
            const struct json *bucket = AT(buckets, j);

            ds_put_format(ds, "  bucket %"PRIu64": port %"PRIu64
                          " packets:%"PRIu64" bytes:%"PRIu64"\n",
                          INT(bucket, "bucket"), INT(bucket, "port"),
                          INT(bucket, "packets"), INT(bucket, "bytes"));
        }
    }
}

static void
specialise(struct dpif_xdp_dp *dp,
           const struct dpif_xdp_query *query OVS_UNUSED, struct json *report)
{
    int error = dp->fastpath ? -oxdp_progs_specialise(dp->progs) : 0;

    dpif_xdp_report_text(report, "result",
                         error ? ovs_strerror(error) : "done");
}

static void
text_result(const struct json *report, struct ds *ds)
{
    ds_put_format(ds, "%s@%s: %s\n", TEXT(report, "type"),
                  TEXT(report, "name"), TEXT(report, "result"));
}

static const struct command commands[] = {
    { "xdp/show", TAKES_PORT, dpif_xdp_show_report, dpif_xdp_show_text },
    { "xdp/stats", TAKES_PORT | TAKES_COUNTERS, dpif_xdp_stats_report,
      dpif_xdp_stats_text },
    { "xdp/why", TAKES_PORT | TAKES_FLOW, dpif_xdp_why_report,
      dpif_xdp_why_text },
    { "xdp/ct-show", 0, dpif_xdp_ct_show_report, dpif_xdp_ct_show_text },
    { "xdp/dump-masks", 0, report_masks, text_masks },
    { "xdp/bond-show", 0, report_bonds, text_bonds },
    { "xdp/specialise", 0, specialise, text_result },
};

/* Names that a request has are looked for among those that exist. */
struct search {
    const struct dpif_xdp_query *query;
    bool dp_found;
    bool port_found;
};

static bool
is_asked_for(const struct dpif_xdp_dp *dp, const struct dpif_xdp_query *query)
{
    return !query->dp || dpif_xdp_query_is_dp(dp, query->dp);
}

static void
search_dp(struct dpif_xdp_dp *dp, void *search_)
{
    struct search *search = search_;

    if (is_asked_for(dp, search->query)) {
        size_t n;

        search->dp_found = true;
        dpif_xdp_port_lock(dp);
        free(dpif_xdp_query_ports(dp, search->query, &n));
        dpif_xdp_port_unlock(dp);
        search->port_found |= n > 0;
    }
}

/* Whether what was thought to be a port is a flow, and the command takes
 * those. */
static bool
take_flow(const struct command *command, struct dpif_xdp_query *query)
{
    if (!(command->takes & TAKES_FLOW) || !dpif_xdp_is_flow(query->port)) {
        return false;
    }
    query->flow = query->port;
    query->port = NULL;
    return true;
}

/* Finds out what 'argv', the 'argc' names of a request, mean: DATAPATH, PORT,
 * or both.  One name is a datapath's if there is one of that name.  Returns
 * NULL, or a sentence for the user, which the caller frees. */
static char *
parse_names(size_t argc, const char *argv[], const struct command *command,
            struct dpif_xdp_query *query)
{
    bool takes_port = command->takes & TAKES_PORT;
    struct search search = { .query = query };

    if (argc > (takes_port ? 2 : 1)) {
        return xasprintf("%s takes %s; \"%s\" is too much", command->name,
                         takes_port ? "a datapath and a port" : "a datapath",
                         argv[argc - 1]);
    }
    query->dp = argc ? argv[0] : NULL;
    query->port = argc > 1 ? argv[1] : NULL;
    dpif_xdp_for_each(search_dp, &search);
    if (argc == 1 && !search.dp_found && takes_port) {
        query->dp = NULL;
        query->port = argv[0];
        dpif_xdp_for_each(search_dp, &search);
        return search.port_found || take_flow(command, query) ? NULL
               : xasprintf("\"%s\" is neither a datapath of type xdp nor a "
                           "port of one", argv[0]);
    }
    if (argc && !search.dp_found) {
        return xasprintf("there is no datapath \"%s\" of type xdp", argv[0]);
    }
    if (argc > 1 && !search.port_found && !take_flow(command, query)) {
        return xasprintf("datapath %s has no port \"%s\"", argv[0], argv[1]);
    }
    return NULL;
}

/* Sets the output format.  Returns NULL or a sentence. */
static char *
parse_format(const char *format, struct request *request)
{
    if (!format || (strcmp(format, "json") && strcmp(format, "text"))) {
        return xasprintf("format \"%s\": expected text or json",
                         format ? format : "");
    }
    request->json = !strcmp(format, "json");
    return NULL;
}

/* Reads the arguments of a request.  Returns NULL, or a sentence for the
 * user, which the caller frees. */
static char *
parse(int argc, const char *argv[], struct request *request)
{
    const struct command *command = request->command;
    const char **names = xcalloc(argc, sizeof *names);
    bool options = true;
    char *error = NULL;
    size_t n = 0;

    for (int i = 1; i < argc && !error; i++) {
        const char *arg = argv[i];

        if (!options || arg[0] != '-') {
            names[n++] = arg;
        } else if (!strcmp(arg, "--")) {
            options = false;
        } else if (!strcmp(arg, "-f") || !strcmp(arg, "--format")) {
            error = parse_format(++i < argc ? argv[i] : NULL, request);
        } else if (!strncmp(arg, "--format=", 9)) {
            error = parse_format(arg + 9, request);
        } else if (!strcmp(arg, "--pretty")) {
            request->pretty = true;
        } else if (command->takes & TAKES_COUNTERS
                   && !strcmp(arg, "--nonzero")) {
            request->query.nonzero = true;
        } else if (command->takes & TAKES_COUNTERS && !strcmp(arg, "--sum")) {
            request->query.sum = true;
        } else {
            error = xasprintf("%s has no option \"%s\"; write \"--\" before "
                              "a name that begins with \"-\"", command->name,
                              arg);
        }
    }
    if (!error) {
        error = parse_names(n, names, command, &request->query);
    }
    free(names);
    return error;
}

struct answer {
    const struct request *request;
    struct json **reports;              /* One of each datapath. */
    size_t n, allocated;
};

static void
report_dp(struct dpif_xdp_dp *dp, void *answer_)
{
    struct answer *answer = answer_;
    const struct request *request = answer->request;
    struct json *report;

    if (is_asked_for(dp, &request->query)) {
        if (answer->n == answer->allocated) {
            answer->reports = x2nrealloc(answer->reports, &answer->allocated,
                                         sizeof *answer->reports);
        }
        report = answer->reports[answer->n++] = json_object_create();
        dpif_xdp_report_text(report, "type", dp->class->type);
        dpif_xdp_report_text(report, "name", dp->name);
        request->command->report(dp, &request->query, report);
    }
}

static int
compare_reports(const void *a_, const void *b_)
{
    const struct json *const *a = a_;
    const struct json *const *b = b_;

    return strcmp(TEXT(*a, "name"), TEXT(*b, "name"));
}

/* The documents of all datapaths that 'request' asks for, by name. */
static struct json *
make_reports(const struct request *request)
{
    struct answer answer = { .request = request };

    dpif_xdp_for_each(report_dp, &answer);
    if (answer.n) {
        qsort(answer.reports, answer.n, sizeof *answer.reports,
              compare_reports);
    }
    return json_array_create(answer.reports, answer.n);
}

/* Takes 'reports'. */
static void
reply_json(struct unixctl_conn *conn, const struct request *request,
           struct json *reports)
{
    struct json *all = json_object_create();

    json_object_put(all, "datapaths", reports);
    dpif_xdp_report_reply(conn, all, request->pretty);
}

/* Takes 'reports'. */
static void
reply_text(struct unixctl_conn *conn, const struct request *request,
           struct json *reports)
{
    struct ds ds = DS_EMPTY_INITIALIZER;

    for (size_t i = 0; i < N(reports); i++) {
        request->command->text(AT(reports, i), &ds);
    }
    unixctl_command_reply(conn, ds_cstr(&ds));
    ds_destroy(&ds);
    json_destroy(reports);
}

static void
run_command(struct unixctl_conn *conn, int argc, const char *argv[],
            void *command_)
{
    struct request request = {
        .command = command_, .json = dpif_xdp_unixctl_wants_json(conn),
    };
    char *error = parse(argc, argv, &request);

    if (error) {
        unixctl_command_reply_error(conn, error);
        free(error);
        return;
    }
    (request.json ? reply_json : reply_text)(conn, &request,
                                             make_reports(&request));
}

void
dpif_xdp_appctl_init(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;

    if (ovsthread_once_start(&once)) {
        for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
            const struct command *command = &commands[i];
            char *usage = xasprintf(
                "[-f text|json] [--pretty]%s [DATAPATH]%s",
                command->takes & TAKES_COUNTERS ? " [--nonzero] [--sum]" : "",
                command->takes & TAKES_FLOW ? " [PORT|FLOW]"
                : command->takes & TAKES_PORT ? " [PORT]" : "");

            /* Open vSwitch keeps 'usage'. */
            unixctl_command_register(command->name, usage, 0, INT_MAX,
                                     run_command,
                                     CONST_CAST(struct command *, command));
        }
        dpif_xdp_trace_init_commands();
        ovsthread_once_done(&once);
    }
}
