/* SPDX-License-Identifier: Apache-2.0 */
/* Samples that programs took (dp/sample.h): a thread asks ofproto about each,
 * as the action sample() of its flow says.  The packet itself has gone on. */
#include <config.h>

#include "ovs/engine/engine_private.h"

#include <errno.h>

#include "core/programs/sample.h"
#include "latch.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs/base/threads.h"
#include "ovs/fastpath/compile.h"
#include "ovs/fastpath/fastpath.h"
#include "packets.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_sample);

#define AT_ONCE 64                      /* Between two quiescent states. */
#define MAX_LENGTH UINT16_MAX           /* Of a packet with GSO: lengths in
                                         * struct dp_packet have 16 bits. */

struct dpif_xdp_sampler {
    struct dpif_xdp_dp *dp;
    struct oxdp_samples *samples;
    struct latch exit;
    pthread_t thread;
    atomic_uint64_t n;
    atomic_uint64_t n_gone;             /* Whose flow was gone by then. */
};

/* The packet, in which zeroes follow what was copied of it. */
static struct dp_packet *
packet_of(const struct dp_sampled *sampled)
{
    size_t length = MAX(sampled->captured, MIN(sampled->length, MAX_LENGTH));
    struct dp_packet *packet
        = dp_packet_new_with_headroom(length, VLAN_HEADER_LEN);
    union {
        struct { ovs_be16 tpid, tci; } tag;
        uint32_t raw;
    } u = { .raw = sampled->tag };

    dp_packet_put(packet, sampled->bytes, sampled->captured);
    dp_packet_put_zeros(packet, length - sampled->captured);
    if (u.raw) {
        eth_push_vlan(packet, u.tag.tpid, u.tag.tci);
    }
    dpif_xdp_take_record(&sampled->record, &sampled->ct, &packet->md);
    return packet;
}

static void
take(const struct dp_sampled *sampled, void *sampler_)
{
    struct dpif_xdp_sampler *sampler = sampler_;
    struct dpif_xdp_dp *dp = sampler->dp;
    const struct dpif_xdp_actions *actions;
    struct dp_packet_batch batch;
    struct dpif_xdp_flow *flow;
    struct dp_packet *packet;
    struct dpif_xdp_ctx ctx;
    struct ofpbuf drawn;
    uint64_t orig;

    flow = dpif_xdp_fastpath_matched(dp, &sampled->record);
    if (!flow || sampled->captured < ETH_HEADER_LEN) {
        atomic_add_relaxed(&sampler->n_gone, 1, &orig);
        return;
    }
    actions = dpif_xdp_flow_actions(flow);
    packet = packet_of(sampled);
    parse_tcp_flags(packet, NULL, NULL, NULL);  /* Where its layers are. */
    ofpbuf_init(&drawn, 128);
    dpif_xdp_draw_samples(actions->actions, actions->size, &drawn);
    dpif_xdp_ctx_init(&ctx, dp, NULL);
    dp_packet_batch_init_packet(&batch, packet);
    dpif_xdp_execute_actions(&ctx, &batch, true, flow->key, drawn.data,
                             drawn.size, actions->growth);
    dpif_xdp_output_flush(&ctx);
    ofpbuf_uninit(&drawn);
    atomic_add_relaxed(&sampler->n, 1, &orig);
}

static void *
work(void *sampler_)
{
    struct dpif_xdp_sampler *sampler = sampler_;

    while (!latch_is_set(&sampler->exit)) {
        if (!oxdp_samples_read(sampler->samples, AT_ONCE, take, sampler)) {
            poll_fd_wait(oxdp_samples_fd(sampler->samples), POLLIN);
            latch_wait(&sampler->exit);
            poll_block();
        }
        ovsrcu_quiesce();
    }
    return NULL;
}

void
dpif_xdp_sampler_start(struct dpif_xdp_dp *dp)
{
    struct oxdp_samples *samples = NULL;
    int error = dpif_xdp_try_thread();

    error = error ? error : -oxdp_samples_open(dp->progs, &samples);
    if (error) {
        VLOG_ERR("%s: what programs sample (sFlow, IPFIX) is lost: %s",
                 dp->name, ovs_strerror(error));
        return;
    }
    dp->engine.sampler = xzalloc(sizeof *dp->engine.sampler);
    dp->engine.sampler->dp = dp;
    dp->engine.sampler->samples = samples;
    latch_init(&dp->engine.sampler->exit);
    atomic_init(&dp->engine.sampler->n, 0);
    atomic_init(&dp->engine.sampler->n_gone, 0);
    dp->engine.sampler->thread = ovs_thread_create("xdp-sample", work,
                                                   dp->engine.sampler);
}

void
dpif_xdp_sampler_stop(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_sampler *sampler = dp->engine.sampler;

    if (sampler) {
        latch_set(&sampler->exit);
        ovsrcu_quiesce_start();
        xpthread_join(sampler->thread, NULL);
        ovsrcu_quiesce_end();
        oxdp_samples_close(sampler->samples);
        latch_destroy(&sampler->exit);
        free(sampler);
        dp->engine.sampler = NULL;
    }
}

void
dpif_xdp_sampler_get_stats(const struct dpif_xdp_dp *dp, uint64_t *n,
                           uint64_t *n_lost)
{
    *n = *n_lost = 0;
    if (dp->engine.sampler) {
        atomic_read_relaxed(&dp->engine.sampler->n, n);
        atomic_read_relaxed(&dp->engine.sampler->n_gone, n_lost);
    }
    if (dp->progs) {
        *n_lost += oxdp_samples_lost(dp->progs);
    }
}
