/* SPDX-License-Identifier: Apache-2.0 */
/* Drops among Open vSwitch's coverage counters: `ovs-appctl coverage/show`.
 *
 * The stock userspace datapath counts its drops under names that exporters and
 * scripts know: datapath_drop_* (lib/dpif-netdev.c) and drop_action_*
 * (lib/odp-execute.c).  Those are private to these files, but each of them
 * registers itself; for those that this datapath has, too, a counter of the
 * same name that adds both is registered instead (the linker's --wrap).
 *
 * The main thread adds what programs and the engine have dropped since it
 * looked last.  It never takes anything back. */
#include <config.h>

#include "ovs/provider/drop_coverage.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/programs/progs.h"
#include "coverage.h"
#include "odp-netlink.h"
#include "ovs-atomic.h"
#include "ovs/base/compat.h"
#include "ovs/datapath/datapath.h"
#include "ovs/fastpath/fastpath.h"
#include "util.h"

/* Counters that Open vSwitch has. */
#define STOCK_COUNTERS(X)                                                   \
    X(datapath_drop_meter)                                                  \
    X(datapath_drop_upcall_error)                                           \
    X(datapath_drop_lock_error)                                             \
    X(datapath_drop_userspace_action_error)                                 \
    X(datapath_drop_tunnel_push_error)                                      \
    X(datapath_drop_tunnel_pop_error)                                       \
    X(datapath_drop_recirc_error)                                           \
    X(datapath_drop_invalid_port)                                           \
    X(datapath_drop_invalid_bond)                                           \
    X(datapath_drop_invalid_tnl_port)                                       \
    X(datapath_drop_rx_invalid_packet)                                      \
    X(drop_action_of_pipeline)                                              \
    X(drop_action_bridge_not_found)                                         \
    X(drop_action_recursion_too_deep)                                       \
    X(drop_action_too_many_resubmit)                                        \
    X(drop_action_stack_too_deep)                                           \
    X(drop_action_no_recirculation_context)                                 \
    X(drop_action_recirculation_conflict)                                   \
    X(drop_action_too_many_mpls_labels)                                     \
    X(drop_action_invalid_tunnel_metadata)                                  \
    X(drop_action_unsupported_packet_type)                                  \
    X(drop_action_congestion)                                               \
    X(drop_action_forwarding_disabled)                                      \
    DPIF_XDP_TUNNEL_DROPS(X)

/* Counters for which it has no name. */
#define OWN_COUNTERS(X)                                                     \
    X(datapath_drop_xdp_no_frame)                                           \
    X(datapath_drop_xdp_too_long)                                           \
    X(datapath_drop_xdp_over_mtu)                                           \
    X(datapath_drop_xdp_no_buffers)                                         \
    X(datapath_drop_xdp_port_closed)                                        \
    X(datapath_drop_xdp_flow_gone)                                          \
    X(datapath_drop_xdp_no_socket)                                          \
    X(datapath_drop_xdp_no_headroom)                                        \
    X(datapath_drop_xdp_no_memory)                                          \
    X(datapath_drop_xdp_lost_copy)                                          \
    X(datapath_drop_xdp_detour)                                             \
    X(datapath_drop_xdp_segments)                                           \
    X(datapath_drop_xdp_no_sender)                                          \
    X(datapath_drop_xdp_send_error)

#define ALL_COUNTERS(X) STOCK_COUNTERS(X) OWN_COUNTERS(X)

enum {
#define X(NAME, ...) C_##NAME,
    ALL_COUNTERS(X)
#undef X
    N_COUNTERS
};

/* Drops of the engine. */
static const struct {
    enum dpif_xdp_drop drop;
    int counter;
} engine_drops[] = {
    { DPIF_XDP_DROP_INVALID_PACKET, C_datapath_drop_rx_invalid_packet },
    { DPIF_XDP_DROP_UPCALL_ERROR, C_datapath_drop_upcall_error },
    { DPIF_XDP_DROP_UPCALL_DISABLED, C_datapath_drop_lock_error },
    { DPIF_XDP_DROP_USERSPACE_ERROR, C_datapath_drop_userspace_action_error },
    { DPIF_XDP_DROP_INVALID_PORT, C_datapath_drop_invalid_port },
    { DPIF_XDP_DROP_INVALID_BOND, C_datapath_drop_invalid_bond },
    { DPIF_XDP_DROP_INVALID_TUNNEL, C_datapath_drop_invalid_tnl_port },
    { DPIF_XDP_DROP_TUNNEL_PUSH, C_datapath_drop_tunnel_push_error },
    { DPIF_XDP_DROP_TUNNEL_POP, C_datapath_drop_tunnel_pop_error },
    { DPIF_XDP_DROP_METER, C_datapath_drop_meter },
    { DPIF_XDP_DROP_RECIRC_DEPTH, C_datapath_drop_recirc_error },
    { DPIF_XDP_DROP_NO_FRAME, C_datapath_drop_xdp_no_frame },
    { DPIF_XDP_DROP_TOO_LONG, C_datapath_drop_xdp_too_long },
    { DPIF_XDP_DROP_OVER_MTU, C_datapath_drop_xdp_over_mtu },
    { DPIF_XDP_DROP_NO_SOCKET, C_datapath_drop_xdp_no_sender },
    { DPIF_XDP_DROP_SEND_ERROR, C_datapath_drop_xdp_send_error },
    { DPIF_XDP_DROP_TUNNEL_UNUSED, C_datapath_drop_tunnel_push_error },
    { DPIF_XDP_DROP_PORT_CLOSED, C_datapath_drop_xdp_port_closed },
    { DPIF_XDP_DROP_FLOW_GONE, C_datapath_drop_xdp_flow_gone },
    { DPIF_XDP_DROP_PORT_NOT_READY, C_datapath_drop_upcall_error },
    { DPIF_XDP_DROP_NO_TUNNEL, C_datapath_drop_upcall_error },
};
BUILD_ASSERT_DECL(ARRAY_SIZE(engine_drops) == DPIF_XDP_N_DROPS);

/* Drops of programs, except those that a flow's "drop" action asks for. */
static const struct {
    enum dp_counter drop;
    int counter;
} program_drops[] = {
    { DP_COUNTER_METERED, C_datapath_drop_meter },
    { DP_COUNTER_NO_OUTPUT, C_datapath_drop_invalid_port },
    { DP_COUNTER_TOO_LONG, C_datapath_drop_xdp_too_long },
    { DP_COUNTER_NO_MEMORY, C_datapath_drop_xdp_no_memory },
    { DP_COUNTER_NO_SOCKET, C_datapath_drop_xdp_no_socket },
    { DP_COUNTER_LOST_UPCALLS, C_datapath_drop_xdp_no_socket },
    { DP_COUNTER_NO_HEADROOM, C_datapath_drop_xdp_no_headroom },
    { DP_COUNTER_LOST_COPIES, C_datapath_drop_xdp_lost_copy },
    { DP_COUNTER_LONG_COPIES, C_datapath_drop_xdp_over_mtu },
    { DP_COUNTER_SEGMENTS, C_datapath_drop_xdp_segments },
    { DP_COUNTER_OVER_MTU, C_datapath_drop_xdp_over_mtu },
    { DP_COUNTER_DETOUR, C_datapath_drop_xdp_detour },
    { DP_COUNTER_NO_BUFFERS, C_datapath_drop_xdp_no_buffers },
    { DP_COUNTER_NO_METADATA, C_datapath_drop_tunnel_pop_error },
};

/* Those, by the reason that the action has. */
static const int action_drops[] = {
    [XLATE_OK] = C_drop_action_of_pipeline,
    [XLATE_BRIDGE_NOT_FOUND] = C_drop_action_bridge_not_found,
    [XLATE_RECURSION_TOO_DEEP] = C_drop_action_recursion_too_deep,
    [XLATE_TOO_MANY_RESUBMITS] = C_drop_action_too_many_resubmit,
    [XLATE_STACK_TOO_DEEP] = C_drop_action_stack_too_deep,
    [XLATE_NO_RECIRCULATION_CONTEXT] = C_drop_action_no_recirculation_context,
    [XLATE_RECIRCULATION_CONFLICT] = C_drop_action_recirculation_conflict,
    [XLATE_TOO_MANY_MPLS_LABELS] = C_drop_action_too_many_mpls_labels,
    [XLATE_INVALID_TUNNEL_METADATA] = C_drop_action_invalid_tunnel_metadata,
    [XLATE_UNSUPPORTED_PACKET_TYPE] = C_drop_action_unsupported_packet_type,
    [XLATE_CONGESTION_DROP] = C_drop_action_congestion,
    [XLATE_FORWARDING_DISABLED] = C_drop_action_forwarding_disabled,
#define X(NAME, REASON) [REASON] = C_##NAME,
    DPIF_XDP_TUNNEL_DROPS(X)
#undef X
};

/* What the main thread has found and no thread has taken yet, and Open
 * vSwitch's own count. */
static struct {
    atomic_uint64_t n;
    unsigned int (*stock)(void);
} pending[N_COUNTERS];

/* Takes what counter 'i' has counted since the last call: see lib/coverage.h.
 * Calls exclude each other. */
static unsigned int
take(int i)
{
    unsigned int stock = pending[i].stock ? pending[i].stock() : 0;
    uint64_t n, orig;

    atomic_read_relaxed(&pending[i].n, &n);
    n = MIN(n, UINT_MAX - stock);
    atomic_sub_relaxed(&pending[i].n, n, &orig);
    return stock + n;
}

#define X(NAME, ...)                                                        \
    static unsigned int                                                     \
    take_##NAME(void)                                                       \
    {                                                                       \
        return take(C_##NAME);                                              \
    }
ALL_COUNTERS(X)
#undef X

static struct coverage_counter counters[N_COUNTERS] = {
#define X(NAME, ...) { #NAME, take_##NAME, 0, 0, {0}, {0} },
    ALL_COUNTERS(X)
#undef X
};

void __real_coverage_counter_register(struct coverage_counter *);
void __wrap_coverage_counter_register(struct coverage_counter *);

void
__wrap_coverage_counter_register(struct coverage_counter *counter)
{
    for (size_t i = 0; i < N_COUNTERS; i++) {
        if (!strcmp(counter->name, counters[i].name)) {
            pending[i].stock = counter->count;
            counter = &counters[i];
            break;
        }
    }
    __real_coverage_counter_register(counter);
}

OVS_CONSTRUCTOR(register_own_counters) {
#define X(NAME) __real_coverage_counter_register(&counters[C_##NAME]);
    OWN_COUNTERS(X)
#undef X
}

struct dpif_xdp_coverage {
    uint64_t engine[ARRAY_SIZE(engine_drops)];
    uint64_t programs[ARRAY_SIZE(program_drops)];
    uint64_t actions[ARRAY_SIZE(action_drops)];
};

struct dpif_xdp_coverage *
dpif_xdp_coverage_create(void)
{
    return xzalloc(sizeof(struct dpif_xdp_coverage));
}

void
dpif_xdp_coverage_destroy(struct dpif_xdp_coverage *coverage)
{
    free(coverage);
}

/* Counts the difference between 'now' and '*then' by 'counter'. */
static void
count_up(int counter, uint64_t *then, uint64_t now)
{
    if (now > *then) {
        uint64_t orig;

        atomic_add_relaxed(&pending[counter].n, now - *then, &orig);
        *then = now;
    }
}

void
dpif_xdp_coverage_count_engine(const struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_coverage *then = dp->provider.coverage;

    for (size_t i = 0; i < ARRAY_SIZE(engine_drops); i++) {
        count_up(engine_drops[i].counter, &then->engine[i],
                 dpif_xdp_get_drops(dp, engine_drops[i].drop));
    }
}

void
dpif_xdp_coverage_count_programs(const struct dpif_xdp_dp *dp)
{
    uint64_t actions[ARRAY_SIZE(action_drops)];
    struct dpif_xdp_coverage *then = dp->provider.coverage;
    uint64_t programs[DP_N_COUNTERS];

    if (!dp->progs) {
        return;
    }
    oxdp_progs_get_totals(dp->progs, programs);
    for (size_t i = 0; i < ARRAY_SIZE(program_drops); i++) {
        count_up(program_drops[i].counter, &then->programs[i],
                 programs[program_drops[i].drop]);
    }
    dpif_xdp_fastpath_action_drops(dp, actions, ARRAY_SIZE(actions));
    for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
        count_up(action_drops[i], &then->actions[i], actions[i]);
    }
}
