/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of connections of a datapath, and the thread that takes out what
 * has expired. */
#include <config.h>

#include "ovs/state/ct_private.h"

#include <errno.h>
#include <unistd.h>

#include "core/kernel/grace.h"
#include "core/kernel/libbpf_log.h"
#include "core/kernel/ticks.h"
#include "core/programs/ct_pins.h"
#include "core/programs/track.h"
#include "dp/seam_native.h"
#include "dp/ct.h"
#include "ipf.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs-rcu.h"
#include "ovs/base/threads.h"
#include "random.h"
#include "seq.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_ct);

#define HURRY_INTERVAL_MS 100   /* However many packets want it. */
#define SWEPT_AT_ONCE 2048      /* Entries; others wait for some 50 us. */
#define PRIVATE_HZ 1000         /* Where there are no programs. */

static void *sweep(void *ct);
static void *make_early(void *ct);

struct dpif_xdp_ct *
dpif_xdp_ct_create(const char *name)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    struct dpif_xdp_ct *ct = xzalloc(sizeof *ct);

    ct->name = xstrdup(name);
    ct->ipf = ipf_init();
    ct->ipf_basis = random_uint32();
    ct->max = OXDP_CT_DEFAULT_MAX;
    ovs_mutex_init(&ct->mutex);
    atomic_init(&ct->tables, NULL);
    atomic_init(&ct->n_tracked, 0);
    atomic_init(&ct->sweep_ms, DPIF_XDP_CT_SWEEP_MS);
    latch_init(&ct->exit);
    ct->wanted = seq_create();
    ct->news = seq_create();
    dpif_xdp_ct_policies_init(ct);
    dpif_xdp_ct_expect_init(ct);
    return ct;
}

void
dpif_xdp_ct_stop(struct dpif_xdp_ct *ct)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    /* Each may be waiting until all threads quiesce, this one too. */
    ovsrcu_quiesce_start();
    if (ct->has_maker) {
        xpthread_join(ct->maker, NULL);
    }
    if (dpif_xdp_ct_tables(ct)) {
        latch_set(&ct->exit);
        xpthread_join(ct->sweeper, NULL);
    }
    ovsrcu_quiesce_end();
}

void
dpif_xdp_ct_destroy(struct dpif_xdp_ct *ct)
{
    dpif_xdp_ct_expect_destroy(ct);
    dpif_xdp_ct_policies_destroy(ct);
    oxdp_ct_destroy(dpif_xdp_ct_tables(ct));
    latch_destroy(&ct->exit);
    seq_destroy(ct->wanted);
    seq_destroy(ct->news);
    ovs_mutex_destroy(&ct->mutex);
    ipf_destroy(ct->ipf);
    free(ct->name);
    free(ct);
}

struct ipf *
dpif_xdp_ct_ipf(const struct dpif_xdp_ct *ct)
{
    return ct->ipf;
}

struct oxdp_ct *
dpif_xdp_ct_tables(const struct dpif_xdp_ct *ct)
{
    return dpif_xdp_ct_tables_(ct);
}

uint32_t
dpif_xdp_ct_ticks(const struct dpif_xdp_ct *ct, long long int ms)
{
    return ct->first_ticks + (ms - ct->first_ms) * ct->hz / 1000;
}

/* The ticks are the kernel's, which programs use, or without programs ours.
 * Returns whether they are the kernel's. */
static bool
start_ticks(struct dpif_xdp_ct *ct, bool has_programs)
    OVS_REQUIRES(dpif_xdp_ct_mutex)
{
    struct oxdp_ticks *ticks;
    bool shared;

    oxdp_libbpf_listen();
    shared = has_programs && !oxdp_ticks_open(&ticks);
    oxdp_libbpf_heard();
    if (!shared) {
        ct->hz = PRIVATE_HZ;
        ct->first_ticks = ct->first_ms = time_msec();
        return false;
    }
    ct->hz = oxdp_ticks_per_second(ticks);
    ct->first_ticks = oxdp_ticks_after(ticks, 0);
    ct->first_ms = oxdp_ticks_to_ms(ticks, ct->first_ticks);
    oxdp_ticks_close(ticks);
    return true;
}

static void
left(void *ct_, uint32_t index)
{
    struct dpif_xdp_ct *ct = ct_;
    struct oxdp_ct *tables = dpif_xdp_ct_tables(ct);

    if (oxdp_ct_tables(tables)->cold[index].helper) {
        dpif_xdp_ct_forget_expected(ct, index);
    }
}

static void
wait_for_programs(void *ct OVS_UNUSED)
{
    oxdp_grace(NULL);
}

/* Makes the tables, as maps if there are or will be programs.  'old_fd' (NULL:
 * none): those of the previous instance, which have this 'layout' (NULL:
 * ours). */
static void
make_tables(struct dpif_xdp_ct *ct, bool has_programs, const int *old_fd,
            const struct oxdp_ct_layout *layout)
    OVS_REQUIRES(dpif_xdp_ct_mutex)
{
    struct oxdp_ct_config config = {
        .n = ct->max,
        .layout = layout,
        .left = left,
        .grace = wait_for_programs,
        .aux = ct,
    };
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);
    struct oxdp_ct *tables = NULL;
    int error = dpif_xdp_try_thread();

    if (error) {                        /* The next packet tries again. */
        VLOG_ERR_RL(&rl, "%s: no thread for connections (%s), packets are not "
                    "tracked: let the daemon have more tasks (systemd: "
                    "TasksMax)", ct->name, ovs_strerror(error));
        return;
    }
    config.maps = start_ticks(ct, has_programs);    /* Not shared. */
    config.hz = ct->hz;
    error = -oxdp_ct_create(&config, old_fd, &tables);
    if (error && config.maps) {
        VLOG_INFO("%s: connections are kept in memory of this process: BPF "
                  "maps for them cannot be made (%s)", ct->name,
                  ovs_strerror(error));
        config.maps = false;
        error = -oxdp_ct_create(&config, NULL, &tables);
    }
    if (error) {
        VLOG_ERR("%s: no memory for %"PRIu32" connections (%s): lower "
                 "other_config:xdp-ct-max", ct->name, ct->max,
                 ovs_strerror(error));
        ct->failed = true;
        return;
    }
    memcpy(ct->refused, oxdp_ct_tables(tables)->head->n_refused,
           sizeof ct->refused);
    atomic_store_relaxed(&ct->any_helped, old_fd != NULL);
    atomic_store_explicit(&ct->tables, tables, memory_order_release);
    ct->sweeper = ovs_thread_create("ct_sweep", sweep, ct);
    VLOG_INFO("%s: room for %"PRIu32" connections, %"PRIuSIZE" MB", ct->name,
              ct->max, (oxdp_ct_bytes(ct->max)
                        + (config.maps ? oxdp_ct_path_bytes(ct->max) : 0))
                       >> 20);
    seq_change(ct->news);
}

/* Lets the tables, if they are maps, outlive this process. */
static void
pin_tables(struct dpif_xdp_ct *ct)
    OVS_REQUIRES(dpif_xdp_ct_mutex)
{
    struct oxdp_ct *tables = dpif_xdp_ct_maps(ct);
    int error = tables ? -oxdp_ct_pins_add(ct->progs, tables) : 0;

    if (error) {
        VLOG_WARN("%s: connections will not outlive this process: cannot pin "
                  "their tables (%s)", ct->name, ovs_strerror(error));
    }
}

struct oxdp_ct *
dpif_xdp_ct_need_tables(struct dpif_xdp_ct *ct)
{
    struct oxdp_ct *tables = dpif_xdp_ct_tables(ct);

    if (OVS_UNLIKELY(!tables)) {
        dpif_xdp_ct_lock(ct);
        tables = dpif_xdp_ct_tables(ct);
        if (!tables && !ct->failed) {
            make_tables(ct, ct->progs, NULL, NULL);
            pin_tables(ct);
            tables = dpif_xdp_ct_tables(ct);
        }
        dpif_xdp_ct_unlock(ct);
    }
    return tables;
}

static void *
make_early(void *ct)
{
    ovsrcu_quiesce_start();             /* It takes seconds. */
    dpif_xdp_ct_need_tables(ct);
    return NULL;
}

/* The kernel clears the memory of all tables while it makes them: seconds for
 * millions of connections, in which the first packet would hold up an engine
 * thread.  So a thread makes such tables before, if programs share them:
 * others take no memory until it is used. */
static void
make_large_early(struct dpif_xdp_ct *ct)
    OVS_REQUIRES(dpif_xdp_ct_mutex)
{
    if (ct->progs && ct->max > OXDP_CT_DEFAULT_MAX && !ct->has_maker
        && !dpif_xdp_ct_tables(ct) && !dpif_xdp_try_thread()) {
        ct->has_maker = true;
        ct->maker = ovs_thread_create("ct_make", make_early, ct);
    }
}

uint64_t
dpif_xdp_ct_n_tracked(const struct dpif_xdp_ct *ct)
{
    uint64_t n;

    atomic_read_relaxed(&CONST_CAST(struct dpif_xdp_ct *, ct)->n_tracked, &n);
    return n;
}

void
dpif_xdp_ct_hurry(struct dpif_xdp_ct *ct)
{
    seq_change(ct->wanted);
}

void
dpif_xdp_ct_set_sweep_ms(struct dpif_xdp_ct *ct, uint32_t ms)
{
    atomic_store_relaxed(&ct->sweep_ms, ms);
    dpif_xdp_ct_hurry(ct);              /* It may wait for longer. */
}

uint32_t
dpif_xdp_ct_sweep_ms(const struct dpif_xdp_ct *ct)
{
    uint32_t ms;

    atomic_read_relaxed(&ct->sweep_ms, &ms);
    return ms;
}

/* While another thread makes tables.  Only this thread sets 'max'. */
static uint32_t
max_being_made(const struct dpif_xdp_ct *ct)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    return ct->max;
}

uint32_t
dpif_xdp_ct_set_max(struct dpif_xdp_ct *ct, uint32_t max)
{
    uint32_t used;

    if (dpif_xdp_ct_trylock(ct)) {
        return max_being_made(ct);
    }
    if (!dpif_xdp_ct_tables(ct)) {
        ct->max = max;
        ct->failed = false;
        make_large_early(ct);
    }
    used = ct->max;
    dpif_xdp_ct_unlock(ct);
    return used;
}

void
dpif_xdp_ct_adopt(struct dpif_xdp_ct *ct, struct oxdp_progs *progs)
{
    struct oxdp_ct_layout *layout = xcalloc(OXDP_CT_N_TABLES, sizeof *layout);
    struct oxdp_ct *tables;
    int fd[OXDP_CT_N_TABLES];
    int result;

    dpif_xdp_ct_lock(ct);
    result = (dpif_xdp_ct_tables(ct) ? -EEXIST
              : oxdp_ct_pins_open_old(progs, fd, layout));
    if (result >= 0) {
        make_tables(ct, true, fd, result ? layout : NULL);
        for (int i = 0; i < OXDP_CT_N_TABLES; i++) {
            close(fd[i]);
        }
        tables = dpif_xdp_ct_maps(ct);
        if (tables && oxdp_ct_unreadable(tables)) {
            result = -ESTALE;
        }
    }
    if (result > 0 && dpif_xdp_ct_maps(ct)) {
        VLOG_INFO("%s: the connections of the previous instance are in "
                  "tables of another layout: copied them", ct->name);
    } else if (result == -ESTALE) {
        VLOG_WARN("%s: the connections of the previous instance are in tables "
                  "that this version cannot read: tracking begins anew",
                  ct->name);
    }
    free(layout);
    if (dpif_xdp_ct_maps(ct)) {
        oxdp_track_set(progs, dpif_xdp_ct_maps(ct));
    }
    dpif_xdp_ct_unlock(ct);
}

void
dpif_xdp_ct_set_programs(struct dpif_xdp_ct *ct, struct oxdp_progs *progs)
{
    struct oxdp_ct *tables;
    uint32_t kept, lost;

    dpif_xdp_ct_lock(ct);
    ct->progs = progs;
    make_large_early(ct);
    tables = dpif_xdp_ct_tables(ct);
    pin_tables(ct);
    if (dpif_xdp_ct_maps(ct)) {
        oxdp_ct_inherited(tables, &kept, &lost);
        VLOG_INFO("%s: %"PRIu32" connections of the previous instance go on",
                  ct->name, kept);
        if (lost) {
            VLOG_WARN("%s: there was no room for %"PRIu32" more: raise "
                      "other_config:xdp-ct-max", ct->name, lost);
        }
    } else if (tables) {
        VLOG_INFO("%s: connections were tracked before there were programs: "
                  "they end with this process, and the engine tracks",
                  ct->name);
    }
    dpif_xdp_ct_unlock(ct);
}

void
dpif_xdp_ct_catch_up(struct dpif_xdp_ct *ct)
{
    struct oxdp_ct *tables = dpif_xdp_ct_tables(ct);

    if (tables) {
        oxdp_ct_catch_up(tables);
    }
}

void
dpif_xdp_ct_taken_over(struct dpif_xdp_ct *ct)
{
    struct oxdp_ct *tables = dpif_xdp_ct_tables(ct);

    if (tables) {
        oxdp_ct_taken_over(tables);
    }
}

struct oxdp_ct *
dpif_xdp_ct_maps(const struct dpif_xdp_ct *ct)
{
    struct oxdp_ct *tables = dpif_xdp_ct_tables(ct);

    return tables && oxdp_ct_fd(tables, OXDP_CT_head) >= 0 ? tables : NULL;
}

struct seq *
dpif_xdp_ct_news(const struct dpif_xdp_ct *ct)
{
    return ct->news;
}

void
dpif_xdp_ct_tell(void *ct_)
{
    struct dpif_xdp_ct *ct = ct_;

    seq_change(ct->news);
}

bool
dpif_xdp_ct_op_get(struct dpif_xdp_ct *ct, struct dp_op *op,
                   const struct dp_blob *blob, uint32_t policy)
{
    uint32_t flags = op->u.ct.flags;
    uint64_t label[2] = { 0 };

    if (flags & DP_CT_LABEL) {
        memcpy(label, blob->ct.label, sizeof label);
    }
    if (!(flags & DP_CT_COMMIT)) {
        return true;
    }
    if (!oxdp_ct_pair_get(dpif_xdp_ct_tables(ct),
                          flags & DP_CT_MARK ? op->u.ct.mark : 0, label,
                          &op->u.ct.marks)) {
        return false;
    }
    op->u.ct.policy = dpif_xdp_ct_policy_hold(ct, policy);
    return true;
}

void
dpif_xdp_ct_op_put(struct dpif_xdp_ct *ct, const struct dp_op *op)
{
    if (op->u.ct.flags & DP_CT_COMMIT) {
        oxdp_ct_pair_put(dpif_xdp_ct_tables(ct), op->u.ct.marks);
        oxdp_ct_policy_put(dpif_xdp_ct_tables(ct), op->u.ct.policy);
    }
}

/* What left is free when no engine thread and no program can hold it. */
static void
reclaim(struct oxdp_ct *tables)
{
    if (oxdp_ct_reclaim_begin(tables)) {
        if (oxdp_ct_fd(tables, OXDP_CT_head) >= 0) {
            oxdp_grace(NULL);
        }
        ovsrcu_synchronize();
        oxdp_ct_reclaim_end(tables);
    }
}

/* Whether connections have been refused because of 'why' since the last
 * look. */
static bool
has_refused(struct dpif_xdp_ct *ct, const struct dp_ct_head *head,
            enum dp_ct_refusal why)
{
    uint64_t before = ct->refused[why];

    ct->refused[why] = DP_READ_ONCE(head->n_refused[why]);
    return ct->refused[why] != before;
}

/* Says who has no room for connections, whichever tier was to make them. */
static void
say_refusals(struct dpif_xdp_ct *ct, const struct dp_ct_tables *t)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);

    if (has_refused(ct, t->head, DP_CT_REFUSED_FULL)) {
        VLOG_WARN_RL(&rl, "%s: no room for more connections: raise "
                     "other_config:xdp-ct-max above %"PRIu32, ct->name,
                     t->head->n);
    }
    if (has_refused(ct, t->head, DP_CT_REFUSED_SHARE)) {
        uint32_t most = 0;

        for (uint32_t i = 1; i < DP_CT_ZONES; i++) {
            if (DP_READ_ONCE(t->zones[i].n_held)
                > DP_READ_ONCE(t->zones[most].n_held)) {
                most = i;
            }
        }
        VLOG_WARN_RL(&rl, "%s: zone %"PRIu32" holds %"PRIu32" of %"PRIu32" "
                     "entries for connections and gets no more, the rest is "
                     "for other zones: if that is a flood, limit it "
                     "(dpctl/ct-set-limits), else raise "
                     "other_config:xdp-ct-max", ct->name, most,
                     DP_READ_ONCE(t->zones[most].n_held), t->head->n);
    }
}

/* Waits until 'when', or until the thread is to exit, or until 'wanted' has
 * changed unless it is NULL. */
static void
wait_until(struct dpif_xdp_ct *ct, long long int when, const uint64_t *wanted)
{
    latch_wait(&ct->exit);
    if (wanted) {
        seq_wait(ct->wanted, *wanted);
    }
    poll_timer_wait_until(when);
    poll_block();
}

static void *
sweep(void *ct_)
{
    struct dpif_xdp_ct *ct = ct_;
    struct oxdp_ct *tables = dpif_xdp_ct_tables(ct);

    while (!latch_is_set(&ct->exit)) {
        long long int now = time_msec();
        uint64_t wanted = seq_read(ct->wanted);

        while (!oxdp_ct_sweep(tables, dpif_xdp_ct_ticks(ct, now),
                              SWEPT_AT_ONCE)) {
            if (latch_is_set(&ct->exit)) {
                return NULL;
            }
        }
        reclaim(tables);
        say_refusals(ct, oxdp_ct_tables(tables));
        wait_until(ct, now + HURRY_INTERVAL_MS, NULL);
        wait_until(ct, now + dpif_xdp_ct_sweep_ms(ct), &wanted);
    }
    return NULL;
}
