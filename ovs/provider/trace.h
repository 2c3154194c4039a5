/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-appctl xdp/trace...: the ways of single packets.  Main thread only. */
#ifndef DPIF_XDP_PROVIDER_TRACE_H
#define DPIF_XDP_PROVIDER_TRACE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/programs/trace.h"
#include "openvswitch/list.h"
#include "openvswitch/match.h"
#include "openvswitch/types.h"

struct dpif_xdp_dp;
struct dpif_xdp_trace_packet;
struct ds;
struct json;

/* What a user asks for. */
struct dpif_xdp_trace_request {
    bool json;                          /* The answer's form. */
    bool pretty;
    char *dp;                           /* Name of a datapath, or NULL. */
    char *port;                         /* That the packet arrives on, or
                                         * NULL. */
    bool has_flow;                      /* It matches flow 'ufid'. */
    ovs_u128 ufid;
    bool drops;                         /* It is dropped, wherever. */
    bool slow;                          /* It goes to the engine. */
    uint64_t count;                     /* Packets, and ... */
    uint64_t wait_ms;                   /* ... time after which it ends. */
    struct oxdp_trace_filter filter;    /* 'in_port' and 'flow' are not set. */
    struct match match;                 /* The same fields as its key. */
    char *text;                         /* All of it, as it was given. */
};

/* trace_filter.c: reads the arguments of a command.  Returns NULL, or a
 * sentence for the user.  The caller frees that, and '*ret' in either case. */
char *dpif_xdp_trace_parse(int argc, const char *argv[],
                           struct dpif_xdp_trace_request *ret);
void dpif_xdp_trace_request_free(struct dpif_xdp_trace_request *);

/* The same of a command about a session: puts 'json' and 'pretty' into '*ret'
 * if they are given, and the session's name, of 'argv', into '*ret_id'. */
char *dpif_xdp_trace_parse_session(int argc, const char *argv[],
                                   struct dpif_xdp_trace_request *ret,
                                   const char **ret_id);

/* trace_filter.c: finds the datapath that the packets of a request pass, puts
 * it into '*dpp', and its port and flow there into 'filter'.  Returns NULL, or
 * a sentence for the user, which the caller frees. */
char *dpif_xdp_trace_resolve(struct dpif_xdp_trace_request *,
                             struct dpif_xdp_dp **dpp);

/* trace_filter.c: whether 'dp' has programs with flow tables: others trace
 * nothing. */
bool dpif_xdp_trace_has_programs(const struct dpif_xdp_dp *dp);

/* trace_filter.c: how a program ends with a packet. */
enum dpif_xdp_trace_end {
    DPIF_XDP_TRACE_FORWARDED,
    DPIF_XDP_TRACE_DROPPED,
    DPIF_XDP_TRACE_ENGINE,
    DPIF_XDP_TRACE_PASSED,
};
enum dpif_xdp_trace_end dpif_xdp_trace_end_of(uint32_t reason);

/* trace_text.c: puts what is known of 'packet' into 'report'; prints that. */
void dpif_xdp_trace_report_packet(struct dpif_xdp_dp *,
                                  const struct dpif_xdp_trace_packet *packet,
                                  struct json *report);
void dpif_xdp_trace_text_packet(const struct json *report, struct ds *);

/* trace.c: registers the commands; runs the trace of 'dp', if there is one,
 * and wakes poll_block() for it; ends it. */
void dpif_xdp_trace_init_commands(void);
void dpif_xdp_trace_run(struct dpif_xdp_dp *dp);
void dpif_xdp_trace_wait(const struct dpif_xdp_dp *dp);
void dpif_xdp_trace_forget(struct dpif_xdp_dp *dp);

#endif /* ovs/provider/trace.h */
