/* SPDX-License-Identifier: Apache-2.0 */
/* core/programs/tcx.c, tcx_load.c, tcx_output.c and tcx_trace.c for the rest of this room. */
#ifndef OXDP_TCX_PRIVATE_H
#define OXDP_TCX_PRIVATE_H 1

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/kernel/detour.h"
#include "core/kernel/order.h"
#include "dp/capability.h"

/* linux/bpf.h of Linux 6.6 and newer. */
#define OXDP_ATTACH_TCX_INGRESS 46
#define OXDP_ATTACH_TCX_EGRESS 47

struct bpf_object;
struct bpf_skb_output;
struct oxdp_attachment;
struct oxdp_constants;
struct oxdp_progs;
struct oxdp_ticks;
struct tcx_bpf;

/* Of a detour: where packets enter its devices, and where they come back. */
enum { OXDP_DETOUR_IN, OXDP_DETOUR_BACK, OXDP_DETOUR_ENDS };

struct oxdp_tcx {
    struct tcx_bpf *skel;
    struct dp_capability capability;
    struct bpf_skb_output *outputs;     /* 'max_ports': as in the map.  Other threads read 'ifindex' alone. */
    struct oxdp_ticks *ticks;           /* NULL: no peer redirect. */
    char near[IF_NAMESIZE], far[IF_NAMESIZE];
    bool has_pair;
    int upcall_link_fd;                 /* -1: none. */
    struct bpf_object *traced;          /* The program with DP_PART_TRACE, which ports have; or NULL. */
    struct oxdp_tcx_loading *loading;   /* tcx_trace.c: loads that; NULL: nobody does. */
    struct bpf_object *tracked;         /* The program over the tables of connections, if loaded later; or NULL. */
    bool over_ct;                       /* It is over them, or that was tried. */
    uint32_t prog_id;                   /* Of the program that ports have. */
    struct oxdp_detour detour;          /* core/programs/detour.c. */
    int detour_fds[OXDP_DETOUR_ENDS];   /* Links of its programs; -1: none, or a filter. */
    struct oxdp_order order;            /* core/programs/order.c. */
    int order_fd;                       /* The link of its program; -1: none, or a filter. */
};

/* Replaces the previous instance's program by ours.  0 or a negative errno. */
int oxdp_tcx_take_over(struct oxdp_progs *progs, struct oxdp_attachment *at);

/* tcx_trace.c: begins to load the program that traces packets, in a thread, unless there is no tcx, or it is loaded or
 * being loaded.  0 or a negative errno. */
int oxdp_tcx_trace_begin(struct oxdp_progs *progs);

/* tcx_trace.c: gives ports that program if it is loaded: oxdp_trace_go_on(). */
int oxdp_tcx_trace_go_on(struct oxdp_progs *progs, char **ret_error);

/* tcx_trace.c: gives ports the program that cannot trace; does not wait for the thread. */
void oxdp_tcx_trace_end(struct oxdp_progs *progs);

/* tcx_trace.c: ends the thread, if there is one, and gives up what it loaded. */
void oxdp_tcx_trace_stop(struct oxdp_tcx *tcx);

/* Gives ports the program that they are to have, each from one packet to the next. */
void oxdp_tcx_renew(struct oxdp_progs *progs);

/* tcx_load.c: loads the programs as 'tcx->skel', and closes nothing on failure.  0, or a negative errno with a
 * sentence. */
int oxdp_tcx_load(struct oxdp_progs *progs, struct oxdp_tcx *tcx, char **ret_error);

/* tcx_load.c: loads the program over the same maps with 'constants'; with 'traced' it can trace packets.  0; or a
 * negative errno with a sentence in '*ret_error'.  Any thread. */
int oxdp_tcx_load_over(const struct oxdp_tcx *tcx, const struct oxdp_constants *constants, bool traced,
                       struct bpf_object **ret_object, char **ret_error);

/* Gives ports 'object', which oxdp_tcx_load_over() loaded, each from one packet to the next.  Takes it. */
void oxdp_tcx_use(struct oxdp_progs *progs, struct bpf_object *object);

/* tcx_load.c: the program that ports get. */
int oxdp_tcx_program(const struct oxdp_tcx *tcx);

/* tcx_load.c: MTU of the upcall pair. */
uint32_t oxdp_tcx_upcall_mtu(void);
/* Pin what 'at' has at tcx; the link of the upcall pair, if there is one. */
void oxdp_tcx_pin(const struct oxdp_progs *progs, const struct oxdp_attachment *at);
void oxdp_tcx_pin_upcall(const struct oxdp_progs *progs);

/* detour.c: wants the devices at once if the previous instance of the datapath 'name' has them, so that they are there
 * when its programs are replaced; pins the links; gives the devices the program that ports are to have. */
void oxdp_detour_inherit(struct oxdp_tcx *tcx, const char *name);
void oxdp_detour_pin(const struct oxdp_progs *progs);
void oxdp_detour_renew(struct oxdp_progs *progs);

/* order.c: the same of the device for order. */
void oxdp_order_inherit(struct oxdp_tcx *tcx, const char *name);
void oxdp_order_pin(const struct oxdp_progs *progs);
void oxdp_order_renew(struct oxdp_progs *progs);

/* tcx_output.c: tells programs at tcx that the limit of port 'port_no' has changed (core/programs/limit.h).  0 or a
 * negative errno. */
int oxdp_tcx_limit_changed(struct oxdp_progs *progs, uint32_t port_no);

#endif /* core/programs/tcx_private.h */
