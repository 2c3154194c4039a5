/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-appctl xdp/trace, and the commands with which ovs-xdp-trace follows.
 *
 *   programs --ring--+
 *                    +--> packets of the session --> answers
 *   engine --lines---+
 *
 * There is one session at a time, because programs have one filter.  That of
 * xdp/trace ends with its answer; that of xdp/trace-start with xdp/trace-stop,
 * or when it has not been read for IDLE_MS. */
#include <config.h>

#include "ovs/provider/trace.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/programs/progs.h"
#include "dp/table.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/json.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs/base/compat.h"
#include "ovs/base/report.h"
#include "ovs/datapath/datapath.h"
#include "ovs/datapath/trace.h"
#include "ovs/fastpath/fastpath.h"
#include "timeval.h"
#include "unixctl.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_trace);

#define READ_MS 20                      /* Between two looks at the ring. */
#define ENGINE_MS 100                   /* For the engine's lines. */
#define IDLE_MS 10000                   /* Without xdp/trace-read. */
#define MAX_PACKETS 1000                /* That wait to be asked for. */

struct session {
    char *id;                           /* No other of any process has it. */
    struct dpif_xdp_dp *dp;
    struct dpif_xdp_trace_request request;
    struct unixctl_conn *conn;          /* Waits for the answer; or NULL. */
    long long int end;                  /* When that is due; monotonic ms. */
    long long int asked;                /* Last; monotonic ms. */
    struct ovs_list packets;            /* struct dpif_xdp_trace_packet. */
    size_t n;
    bool programs;                      /* They trace, too. */
    bool loading;                       /* Not all of them yet. */
    bool follows;                       /* 'conn' waits for 'id' alone, */
    bool id_as_json;                    /* as JSON. */
    struct dpif_xdp_trace_counts engine;
    struct oxdp_trace_counts counts;    /* When it was stopped. */
    bool stopped;                       /* Enough packets have come. */
    uint64_t n_lost;                    /* Lines of the engine. */
};

static struct session *session;         /* NULL: no trace runs. */

static void
packet_free(struct dpif_xdp_trace_packet *packet)
{
    struct dpif_xdp_trace_line *line;

    LIST_FOR_EACH_POP (line, node, &packet->lines) {
        dpif_xdp_trace_line_free(line);
    }
    free(packet);
}

/* What programs and the engine have counted. */
static struct oxdp_trace_counts
counts_of(struct session *s)
{
    struct oxdp_trace_counts sum = { 0 };

    if (s->stopped) {
        return s->counts;
    }
    if (s->programs) {
        sum = oxdp_trace_counts(s->dp->progs);
    }
    sum.looked_at += s->engine.looked_at;
    sum.matched += s->engine.matched;
    sum.lost += s->engine.lost;
    return sum;
}

/* Has nobody trace any more. */
static void
stop(struct session *s)
{
    if (!s->stopped) {
        s->counts = counts_of(s);
        if (s->programs) {
            oxdp_trace_stop(s->dp->progs);
        }
        dpif_xdp_trace_engine(s->dp, DPIF_XDP_TRACE_NONE, NULL, NULL);
        s->stopped = true;
    }
}

static void
session_end(void)
{
    struct dpif_xdp_trace_packet *packet;

    stop(session);
    LIST_FOR_EACH_POP (packet, node, &session->packets) {
        packet_free(packet);
    }
    dpif_xdp_trace_request_free(&session->request);
    free(session->id);
    free(session);
    session = NULL;
}

/* oxdp_trace_fn. */
static void
add_packet(const struct dp_traced *traced, void *session_)
{
    struct session *s = session_;
    size_t size = offsetof(struct dp_traced, bytes) + traced->captured;
    struct dpif_xdp_trace_packet *packet
        = dpif_xdp_trace_packet_new(traced->captured);

    memcpy(&packet->traced, traced, size);
    ovs_list_push_back(&s->packets, &packet->node);
    s->n++;
}

/* Gives 'line' to its packet.  Frees it if no trace has that packet. */
static void
add_line(struct session *s, struct dpif_xdp_trace_line *line)
{
    struct dpif_xdp_trace_packet *packet;

    LIST_FOR_EACH_REVERSE (packet, node, &s->packets) {
        if (packet->traced.id == line->id) {
            ovs_list_push_back(&packet->lines, &line->node);
            packet->dropped |= line->dropped;
            return;
        }
    }
    dpif_xdp_trace_line_free(line);
}

/* Whether all of 'packet' is known. */
static bool
is_complete(const struct dpif_xdp_trace_packet *packet)
{
    return (dpif_xdp_trace_end_of(packet->traced.reason)
            != DPIF_XDP_TRACE_ENGINE || packet->traced.fate == DP_FATE_SKB
            || time_msec() >= packet->seen + ENGINE_MS);
}

/* Whether the engine, which alone traced 'packet', found the flow for it that
 * the session asked for. */
static bool
has_flow(const struct session *s, const struct dpif_xdp_trace_packet *packet)
{
    const struct dpif_xdp_trace_line *line;
    struct ds ufid = DS_EMPTY_INITIALIZER;
    bool found = false;

    odp_format_ufid(&s->request.ufid, &ufid);
    LIST_FOR_EACH (line, node, &packet->lines) {
        found |= strstr(line->text, ds_cstr(&ufid)) != NULL;
    }
    ds_destroy(&ufid);
    return found;
}

/* Whether 'packet', complete, is one that the session asked for. */
static bool
is_wanted(const struct session *s, const struct dpif_xdp_trace_packet *packet)
{
    if (s->request.has_flow && packet->by_engine && !has_flow(s, packet)) {
        return false;
    }
    return (!s->request.drops || s->request.slow || packet->dropped
            || (dpif_xdp_trace_end_of(packet->traced.reason)
                == DPIF_XDP_TRACE_DROPPED));
}

/* How many packets of the session are complete. */
static size_t
count_complete(struct session *s)
{
    struct dpif_xdp_trace_packet *packet;
    size_t n = 0;

    LIST_FOR_EACH_SAFE (packet, node, &s->packets) {
        if (!is_complete(packet)) {
            continue;
        }
        if (is_wanted(s, packet)) {
            n++;
        } else {
            ovs_list_remove(&packet->node);
            packet_free(packet);
            s->n--;
        }
    }
    return n;
}

/* Collects what has come.  The engine gets a packet after the ring, so its
 * lines are taken first: each packet of theirs is known then. */
static void
collect(struct session *s)
{
    struct ovs_list lines = OVS_LIST_INITIALIZER(&lines);
    size_t limit = s->conn ? MIN(s->request.count, MAX_PACKETS) : MAX_PACKETS;
    struct dpif_xdp_trace_line *line;

    s->n_lost += dpif_xdp_trace_take(s->dp, &lines);
    if (!s->stopped && s->n < limit) {
        s->n += dpif_xdp_trace_take_packets(s->dp, &s->packets, &s->engine);
    }
    if (!s->stopped && s->n < limit && s->programs) {
        oxdp_trace_read(s->dp->progs, limit - s->n, add_packet, s);
    }
    LIST_FOR_EACH_POP (line, node, &lines) {
        add_line(s, line);
    }
}

/* A flow that was changed has another place in the tables. */
static void
follow_flow(struct session *s)
{
    const struct dpif_xdp_flow *flow;

    if (s->request.has_flow && s->programs && !s->stopped) {
        dpif_xdp_flow_lock(s->dp);
        flow = dpif_xdp_flows_find(&s->dp->flows, &s->request.ufid);
        if (flow && dpif_xdp_fastpath_finds(flow)) {
            oxdp_trace_set_flow(s->dp->progs, dpif_xdp_fastpath_index(flow));
        }
        dpif_xdp_flow_unlock(s->dp);
    }
}

/* A new document, '*answerp', about session 's'.  Returns its datapath. */
static struct json *
begin_answer(const struct session *s, struct json **answerp)
{
    struct json *report;

    *answerp = json_object_create();
    report = dpif_xdp_report_element(dpif_xdp_report_array(*answerp,
                                                           "datapaths"));
    dpif_xdp_report_text(report, "type", s->dp->class->type);
    dpif_xdp_report_text(report, "name", s->dp->name);
    dpif_xdp_report_text(report, "session", s->id);
    return report;
}

/* Answers 'conn' with all packets that are complete, which are forgotten
 * then. */
static void
answer_packets(struct session *s, struct unixctl_conn *conn)
{
    struct oxdp_trace_counts counts = counts_of(s);
    struct json *answer, *report = begin_answer(s, &answer);
    struct json *array = dpif_xdp_report_array(report, "packets");
    struct dpif_xdp_trace_packet *packet;
    struct ds ds = DS_EMPTY_INITIALIZER;
    size_t n = 0;

    count_complete(s);
    LIST_FOR_EACH_SAFE (packet, node, &s->packets) {
        if (is_complete(packet) && n < s->request.count) {
            struct json *element = dpif_xdp_report_element(array);

            dpif_xdp_trace_report_packet(s->dp, packet, element);
            dpif_xdp_trace_text_packet(element, &ds);
            dpif_xdp_report_text(element, "text", ds_cstr(&ds));
            if (s->request.json) {
                ds_clear(&ds);
            }
            ovs_list_remove(&packet->node);
            packet_free(packet);
            s->n--;
            n++;
        }
    }
    dpif_xdp_report_int(report, "every", s->request.filter.every);
    dpif_xdp_report_int(report, "looked_at", counts.looked_at);
    dpif_xdp_report_int(report, "matched", counts.matched);
    dpif_xdp_report_int(report, "lost", counts.lost);
    dpif_xdp_report_int(report, "engine_lines_lost", s->n_lost);
    if (s->request.json) {
        dpif_xdp_report_reply(conn, answer, s->request.pretty);
    } else {
        ds_put_format(&ds, "%"PRIuSIZE" packets; looked at %"PRIu64
                      " (1 in %"PRIu32"), %"PRIu64" matched, %"PRIu64
                      " were lost because there was no room\n", n,
                      counts.looked_at, s->request.filter.every,
                      counts.matched, counts.lost);
        unixctl_command_reply(conn, ds_cstr(&ds));
        json_destroy(answer);
    }
    ds_destroy(&ds);
}

/* Answers the command that began 's', which others ask for its packets. */
static void
answer_id(struct session *s)
{
    if (s->id_as_json) {
        struct json *answer;

        begin_answer(s, &answer);
        dpif_xdp_report_reply(s->conn, answer, s->request.pretty);
    } else {
        unixctl_command_reply(s->conn, s->id);
    }
    s->conn = NULL;
    s->follows = false;
}

/* Has more programs trace, until all do.  Returns NULL, or a sentence. */
static char *
go_on(struct session *s)
{
    char *error = NULL;
    int err = (s->programs && !s->stopped
               ? oxdp_trace_go_on(s->dp->progs, &error) : 0);

    if (err == -EAGAIN) {
        return NULL;
    }
    if (!err && s->loading) {
        s->loading = false;
        s->asked = time_msec();
        s->end = s->asked + s->request.wait_ms;
        if (s->follows) {
            answer_id(s);
        }
    }
    return (!err ? NULL : error ? error : xstrdup(ovs_strerror(-err)));
}

void
dpif_xdp_trace_run(struct dpif_xdp_dp *dp)
{
    struct session *s = session;
    char *error;
    size_t n;

    if (!s || s->dp != dp) {
        return;
    }
    error = go_on(s);
    if (error) {
        if (s->conn) {
            unixctl_command_reply_error(s->conn, error);
        } else {
            VLOG_WARN("%s: the trace ends: %s", dp->name, error);
        }
        free(error);
        session_end();
        return;
    }
    follow_flow(s);
    collect(s);
    n = count_complete(s);
    if (s->follows) {
        return;
    } else if (s->conn) {
        if (n >= s->request.count || (!s->loading && time_msec() >= s->end)) {
            stop(s);
            answer_packets(s, s->conn);
            session_end();
        }
    } else if (time_msec() >= s->asked + IDLE_MS) {
        VLOG_INFO("%s: nobody has asked for traced packets for %d s: the "
                  "trace ends", dp->name, IDLE_MS / 1000);
        session_end();
    }
}

void
dpif_xdp_trace_wait(const struct dpif_xdp_dp *dp)
{
    if (session && session->dp == dp) {
        poll_timer_wait(READ_MS);
    }
}

void
dpif_xdp_trace_forget(struct dpif_xdp_dp *dp)
{
    if (session && session->dp == dp) {
        if (session->conn) {
            unixctl_command_reply_error(session->conn,
                                        "the datapath has gone");
        }
        session_end();
    }
}

/* Begins a session as 'argv' says, of 'conn'.  Returns NULL, or a sentence. */
static char *
begin(int argc, const char *argv[], struct unixctl_conn *conn)
{
    static unsigned int n_begun;
    struct dpif_xdp_trace_request request;
    char *error = dpif_xdp_trace_parse(argc, argv, &request);
    struct dpif_xdp_dp *dp;
    bool programs = false;

    request.json |= dpif_xdp_unixctl_wants_json(conn);
    if (!error && session) {
        error = xasprintf("packets of %s are traced already (\"%s\"), by "
                          "session %s: \"ovs-appctl xdp/trace-stop %s\" ends "
                          "that", session->dp->name, session->request.text,
                          session->id, session->id);
    }
    error = error ? error : dpif_xdp_trace_resolve(&request, &dp);
    if (!error) {
        struct ovs_list old = OVS_LIST_INITIALIZER(&old);
        struct dpif_xdp_trace_line *line;

        programs = dpif_xdp_trace_has_programs(dp);
        if (programs) {
            oxdp_trace_start(dp->progs, &request.filter, &error);
        }
        dpif_xdp_trace_take(dp, &old);
        LIST_FOR_EACH_POP (line, node, &old) {
            dpif_xdp_trace_line_free(line);
        }
    }
    if (error) {
        dpif_xdp_trace_request_free(&request);
        return error;
    }
    session = xzalloc(sizeof *session);
    session->id = xasprintf("%ld.%u", (long int) getpid(), ++n_begun);
    session->dp = dp;
    session->request = request;
    session->conn = conn;
    session->asked = time_msec();
    session->end = session->asked + request.wait_ms;
    session->programs = programs;
    session->loading = true;
    ovs_list_init(&session->packets);
    dpif_xdp_trace_engine(dp, programs ? DPIF_XDP_TRACE_SOCKETS
                          : DPIF_XDP_TRACE_ALL, &request.filter,
                          &request.match);
    return NULL;
}

static void
fail(struct unixctl_conn *conn, char *error)
{
    unixctl_command_reply_error(conn, error);
    free(error);
}

static void
command_trace(struct unixctl_conn *conn, int argc, const char *argv[],
              void *aux OVS_UNUSED)
{
    char *error = begin(argc, argv, conn);

    if (error) {
        fail(conn, error);
    }
}

static void
command_start(struct unixctl_conn *conn, int argc, const char *argv[],
              void *aux OVS_UNUSED)
{
    char *error = begin(argc, argv, conn);

    if (error) {
        fail(conn, error);
        return;
    }
    session->id_as_json = session->request.json;
    session->request.json = true;
    session->request.count = MAX_PACKETS;
    session->follows = true;
}

/* The session that 'id' names, which is no other's; NULL, after a reply, if
 * there is none. */
static struct session *
find_session(struct unixctl_conn *conn, const char *id)
{
    if (session && !strcmp(session->id, id)) {
        return session;
    }
    fail(conn, atol(id) == getpid()
         ? xasprintf("there is no trace \"%s\" any more: it was stopped, or "
                     "nobody had asked for %d s", id, IDLE_MS / 1000)
         : xasprintf("trace \"%s\" was begun in another process%s%s", id,
                     session ? "; here is trace " : "",
                     session ? session->id : ""));
    return NULL;
}

/* The session that 'argv' names, and in 'request' how to answer; NULL, after a
 * reply, if there is none. */
static struct session *
parse_session(struct unixctl_conn *conn, int argc, const char *argv[],
              struct dpif_xdp_trace_request *request)
{
    const char *id;
    char *error;

    request->json |= dpif_xdp_unixctl_wants_json(conn);
    error = dpif_xdp_trace_parse_session(argc, argv, request, &id);
    if (error) {
        fail(conn, error);
        return NULL;
    }
    return find_session(conn, id);
}

static void
command_read(struct unixctl_conn *conn, int argc, const char *argv[],
             void *aux OVS_UNUSED)
{
    struct dpif_xdp_trace_request request = { .json = true };
    struct session *s = parse_session(conn, argc, argv, &request);

    if (s && s->conn) {
        fail(conn, xasprintf("trace %s answers by itself%s", s->id, s->loading
                             ? ", and programs for it are being loaded" : ""));
    } else if (s) {
        s->request.json = request.json;
        s->request.pretty = request.pretty;
        s->asked = time_msec();
        collect(s);
        answer_packets(s, conn);
    }
}

static void
command_stop(struct unixctl_conn *conn, int argc, const char *argv[],
             void *aux OVS_UNUSED)
{
    struct dpif_xdp_trace_request request = { .json = false };
    struct session *s = parse_session(conn, argc, argv, &request);
    struct json *answer;

    if (!s) {
        return;
    }
    if (s->follows) {
        unixctl_command_reply_error(s->conn, "it was stopped");
    } else if (s->conn) {
        stop(s);
        answer_packets(s, s->conn);
    }
    begin_answer(s, &answer);
    session_end();
    if (request.json) {
        dpif_xdp_report_reply(conn, answer, request.pretty);
    } else {
        unixctl_command_reply(conn, "stopped");
        json_destroy(answer);
    }
}

void
dpif_xdp_trace_init_commands(void)
{
    static const char words[]
        = "[-f text|json] [--pretty] [datapath=NAME] [port=NAME] "
          "[flow=ufid:...] [drops] [slow] [every=N] [bytes=N] [count=N] "
          "[wait=SECONDS] [FIELD=VALUE,...]";
    static const char session_words[] = "[-f text|json] [--pretty] SESSION";

    unixctl_command_register("xdp/trace", words, 0, INT_MAX, command_trace,
                             NULL);
    unixctl_command_register("xdp/trace-start", words, 0, INT_MAX,
                             command_start, NULL);
    unixctl_command_register("xdp/trace-read", session_words, 1, INT_MAX,
                             command_read, NULL);
    unixctl_command_register("xdp/trace-stop", session_words, 1, INT_MAX,
                             command_stop, NULL);
}
