/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of xdp/trace: which packets are traced, and for how long; and
 * what they name. */
#include <config.h>

#include "ovs/provider/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/programs/progs.h"
#include "core/programs/trace.h"
#include "dp/reason.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/match.h"
#include "openvswitch/ofp-flow.h"
#include "ovs/datapath/datapath.h"
#include "ovs/fastpath/compile.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/provider/appctl.h"
#include "util.h"

#define DEFAULT_COUNT 10
#define DEFAULT_WAIT_S 5
#define DEFAULT_BYTES 128
#define MAX_COUNT 10000
#define MAX_WAIT_S 3600

enum dpif_xdp_trace_end
dpif_xdp_trace_end_of(uint32_t reason)
{
    enum { FORWARD = DPIF_XDP_TRACE_FORWARDED, FLOW = DPIF_XDP_TRACE_DROPPED,
           DROP = DPIF_XDP_TRACE_DROPPED, UPCALL = DPIF_XDP_TRACE_ENGINE,
           PASS = DPIF_XDP_TRACE_PASSED };
    static const uint8_t ends[] = {
#define X(NAME, KIND, TEXT) [DP_REASON_##NAME] = KIND,
        DP_REASONS(X)
#undef X
    };

    return (reason < ARRAY_SIZE(ends)
            ? (enum dpif_xdp_trace_end) ends[reason]
            : DPIF_XDP_TRACE_PASSED);
}

/* The reasons with which 'request' wants packets to end. */
static uint64_t
reasons_of(const struct dpif_xdp_trace_request *request)
{
    uint64_t reasons = 0;

    for (uint32_t i = 0; i < DP_N_REASONS; i++) {
        enum dpif_xdp_trace_end end = dpif_xdp_trace_end_of(i);

        /* The engine drops packets, too: those are looked at later. */
        if ((!request->drops && !request->slow)
            || end == DPIF_XDP_TRACE_ENGINE
            || (request->drops && !request->slow
                && end == DPIF_XDP_TRACE_DROPPED)) {
            reasons |= UINT64_C(1) << i;
        }
    }
    return reasons;
}

/* Reads the number of "NAME=NUMBER". */
static char *
parse_number(const char *word, uint64_t max, uint64_t *ret)
{
    const char *text = strchr(word, '=') + 1;
    unsigned long long int number;
    char *end;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || !number
        || number > max) {
        return xasprintf("%.*s: expected a number from 1 to %"PRIu64", not "
                         "\"%s\"", (int) (text - word - 1), word, max, text);
    }
    *ret = number;
    return NULL;
}

/* Reads fields as ovs-ofctl takes them. */
static char *
parse_match(const char *text, struct oxdp_trace_filter *filter,
            struct match *match)
{
    enum ofputil_protocol protocols;
    struct ofputil_flow_mod fm;
    char *error = parse_ofp_flow_mod_str(&fm, text, NULL, NULL, OFPFC_DELETE,
                                         &protocols);
    bool other;

    if (error) {
        char *sentence = xasprintf("\"%s\" is neither an option nor fields "
                                   "of packets as ovs-ofctl takes them: %s",
                                   text, error);

        free(error);
        return sentence;
    }
    minimatch_expand(&fm.match, match);
    other = (fm.table_id != OFPTT_ALL || fm.out_port != OFPP_ANY
             || fm.out_group != OFPG_ANY || fm.cookie_mask
             || match->wc.masks.in_port.ofp_port);
    minimatch_destroy(&fm.match);
    if (other) {
        return xasprintf("\"%s\" has more than fields of packets: write "
                         "port=NAME for the port that they arrive on", text);
    }
    if (!dpif_xdp_compile_filter(&match->flow, &match->wc, &filter->key,
                                 &filter->mask)) {
        return xasprintf("\"%s\" has a field that packets do not have when "
                         "they arrive, or that is of a protocol: write that "
                         "before it, such as tcp,tp_dst=80", text);
    }
    filter->has_key = true;
    return NULL;
}

static bool
is_option(const char *word, const char *name)
{
    return !strncmp(word, name, strlen(name));
}

/* Reads a word that is an option; '*ret_known': it is. */
static char *
parse_option(const char *word, struct dpif_xdp_trace_request *ret,
             bool *ret_known)
{
    uint64_t number;
    char *error;

    *ret_known = true;
    if (!strcmp(word, "drops")) {
        ret->drops = true;
    } else if (!strcmp(word, "slow")) {
        ret->slow = true;
    } else if (is_option(word, "datapath=")) {
        free(ret->dp);
        ret->dp = xstrdup(strchr(word, '=') + 1);
    } else if (is_option(word, "port=")) {
        free(ret->port);
        ret->port = xstrdup(strchr(word, '=') + 1);
    } else if (is_option(word, "flow=")) {
        ret->has_flow = odp_ufid_from_string(strchr(word, '=') + 1,
                                             &ret->ufid) > 0;
        return ret->has_flow ? NULL
               : xasprintf("\"%s\": expected ufid:..., as dpctl/dump-flows -m "
                           "prints it", word);
    } else if (is_option(word, "count=")) {
        return parse_number(word, MAX_COUNT, &ret->count);
    } else if (is_option(word, "wait=")) {
        error = parse_number(word, MAX_WAIT_S, &number);
        ret->wait_ms = error ? 0 : number * 1000;
        return error;
    } else if (is_option(word, "every=")) {
        error = parse_number(word, INT32_MAX, &number);
        ret->filter.every = error ? 0 : number;
        return error;
    } else if (is_option(word, "bytes=")) {
        error = parse_number(word, DP_TRACE_BYTES, &number);
        ret->filter.bytes = error ? 0 : number;
        return error;
    } else {
        *ret_known = false;
    }
    return NULL;
}

/* Reads -f, --format and --pretty at '*i'; '*ret_known': it is one. */
static char *
parse_format(int argc, const char *argv[], int *i,
             struct dpif_xdp_trace_request *ret, bool *ret_known)
{
    const char *word = argv[*i], *format;

    *ret_known = true;
    if (!strcmp(word, "--pretty")) {
        ret->pretty = true;
        return NULL;
    } else if (!strcmp(word, "-f") || !strcmp(word, "--format")) {
        format = ++*i < argc ? argv[*i] : "";
    } else if (is_option(word, "--format=")) {
        format = word + strlen("--format=");
    } else {
        *ret_known = false;
        return NULL;
    }
    ret->json = !strcmp(format, "json");
    return ret->json || !strcmp(format, "text") ? NULL
           : xasprintf("format \"%s\": expected text or json", format);
}

char *
dpif_xdp_trace_parse(int argc, const char *argv[],
                     struct dpif_xdp_trace_request *ret)
{
    struct ds match = DS_EMPTY_INITIALIZER, text = DS_EMPTY_INITIALIZER;
    char *error = NULL;

    *ret = (struct dpif_xdp_trace_request) {
        .count = DEFAULT_COUNT, .wait_ms = DEFAULT_WAIT_S * 1000,
        .filter = { .every = 1, .bytes = DEFAULT_BYTES },
    };
    match_init_catchall(&ret->match);
    for (int i = 1; i < argc && !error; i++) {
        bool known;

        error = parse_format(argc, argv, &i, ret, &known);
        if (!known) {
            ds_put_format(&text, "%s%s", text.length ? " " : "", argv[i]);
            error = parse_option(argv[i], ret, &known);
        }
        if (!known) {
            ds_put_format(&match, "%s%s", match.length ? "," : "", argv[i]);
        }
    }
    if (!error && match.length) {
        error = parse_match(ds_cstr(&match), &ret->filter, &ret->match);
    }
    ret->filter.reasons = reasons_of(ret);
    ret->text = ds_steal_cstr(&text);
    ds_destroy(&match);
    return error;
}

char *
dpif_xdp_trace_parse_session(int argc, const char *argv[],
                             struct dpif_xdp_trace_request *ret,
                             const char **ret_id)
{
    char *error = NULL;

    *ret_id = NULL;
    for (int i = 1; i < argc && !error; i++) {
        bool known;

        error = parse_format(argc, argv, &i, ret, &known);
        if (!known && *ret_id) {
            error = xasprintf("\"%s\" is too much: expected one session",
                              argv[i]);
        } else if (!known) {
            *ret_id = argv[i];
        }
    }
    return (error || *ret_id ? error
            : xstrdup("expected a session, as xdp/trace-start answers it"));
}

/* Names that a request has, and what was found. */
struct search {
    const struct dpif_xdp_trace_request *request;
    struct dpif_xdp_dp *dp;
    size_t n;
};

/* Whether the packets of 'request' may pass 'dp'. */
static void
search_dp(struct dpif_xdp_dp *dp, void *search_)
{
    struct search *search = search_;
    const struct dpif_xdp_trace_request *request = search->request;
    bool found = !request->dp || dpif_xdp_query_is_dp(dp, request->dp);

    if (found && request->port) {
        const struct dpif_xdp_query query = { .port = request->port };
        size_t n;

        dpif_xdp_port_lock(dp);
        free(dpif_xdp_query_ports(dp, &query, &n));
        dpif_xdp_port_unlock(dp);
        found = n > 0;
    }
    if (found) {
        search->dp = dp;
        search->n++;
    }
}

bool
dpif_xdp_trace_has_programs(const struct dpif_xdp_dp *dp)
{
    return dp->progs && oxdp_trace_is_possible(dp->progs);
}

char *
dpif_xdp_trace_resolve(struct dpif_xdp_trace_request *request,
                       struct dpif_xdp_dp **dpp)
{
    struct search search = { .request = request };
    struct oxdp_trace_filter *filter = &request->filter;
    struct dpif_xdp_dp *dp;

    filter->in_port = OXDP_TRACE_ANY;
    filter->flow = OXDP_TRACE_ANY;
    dpif_xdp_for_each(search_dp, &search);
    dp = *dpp = search.dp;
    if (search.n > 1) {
        return xasprintf("there are %"PRIuSIZE" such datapaths: write "
                         "datapath=NAME", search.n);
    } else if (!dp && request->port) {
        return xasprintf("there is no port \"%s\"%s%s", request->port,
                         request->dp ? " in datapath " : "",
                         request->dp ? request->dp : "");
    } else if (!dp) {
        return xasprintf("there is no datapath %s%s%s of type xdp",
                         request->dp ? "\"" : "",
                         request->dp ? request->dp : "",
                         request->dp ? "\"" : "");
    }
    if (request->port) {
        const struct dpif_xdp_query query = { .port = request->port };
        struct dpif_xdp_port **ports;
        size_t n;

        dpif_xdp_port_lock(dp);
        ports = dpif_xdp_query_ports(dp, &query, &n);
        filter->in_port = odp_to_u32(ports[0]->port_no);
        free(ports);
        dpif_xdp_port_unlock(dp);
    }
    if (request->has_flow) {
        const struct dpif_xdp_flow *flow;

        dpif_xdp_flow_lock(dp);
        flow = dpif_xdp_flows_find(&dp->flows, &request->ufid);
        if (flow && dpif_xdp_fastpath_finds(flow)) {
            filter->flow = dpif_xdp_fastpath_index(flow);
        }
        dpif_xdp_flow_unlock(dp);
        if (!flow || (filter->flow == OXDP_TRACE_ANY
                      && dpif_xdp_trace_has_programs(dp))) {
            return xstrdup(flow ? "programs do not look for that flow: "
                           "xdp/why says why" : "there is no such flow");
        }
    }
    return NULL;
}

void
dpif_xdp_trace_request_free(struct dpif_xdp_trace_request *request)
{
    free(request->dp);
    free(request->port);
    free(request->text);
}
