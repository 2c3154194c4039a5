/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: handles, in threads of the daemon, packets that programs leave
 * to it, and sends what programs cannot. */
#ifndef DPIF_XDP_ENGINE_H
#define DPIF_XDP_ENGINE_H 1

#include "dp-packet.h"
#include "ovs/datapath/datapath.h"
#include "ovs/engine/packet.h"

#define DPIF_XDP_MAX_SENDERS 64         /* AF_XDP sockets that only send. */
#define DPIF_XDP_MAX_RECIRC_DEPTH 6     /* As in lib/dpif-netdev.c. */

struct json;
struct miniflow;
struct nlattr;

/* What a thread needs while it handles one burst.  Lives on the stack. */
#define DPIF_XDP_MAX_OUT 16
struct dpif_xdp_ctx {
    struct dpif_xdp_dp *dp;
    struct dpif_xdp_cache *cache;       /* NULL outside of engine threads. */
    struct dpif_xdp_cls_stats *cls_stats;
    bool *expect_simple;                /* As the flow seen last; or NULL. */
    long long int now;                  /* Monotonic, microseconds. */
    uint32_t tx_queue;                  /* Spreads threads over queues. */
    bool via_stack;                     /* Send where tcpdump sees it. */
    void (*recirculate)(struct dpif_xdp_ctx *, struct dp_packet_batch *);
    size_t n_out;                       /* Batches that wait for sending. */
    struct dpif_xdp_out {
        struct dpif_xdp_port *port;
        struct dp_packet_batch batch;
    } out[DPIF_XDP_MAX_OUT];
};

/* Prepares 'ctx' for one burst of 'dp', in 'thread' or, if 'thread' is NULL,
 * in some other thread. */
void dpif_xdp_ctx_init(struct dpif_xdp_ctx *ctx, struct dpif_xdp_dp *dp,
                       struct dpif_xdp_thread *thread);

/* Executes 'actions' on 'batch'.  'key' is the flow of the packets as they
 * came, 'growth' is dpif_xdp_actions_growth() of 'actions'.  Frees the
 * packets if 'should_steal', else leaves them, changed, in 'batch'. */
void dpif_xdp_execute_actions(struct dpif_xdp_ctx *,
                              struct dp_packet_batch *batch,
                              bool should_steal, const struct miniflow *key,
                              const struct nlattr *actions, size_t len,
                              uint32_t growth);

/* Sends everything that waits in 'ctx'. */
void dpif_xdp_output_flush(struct dpif_xdp_ctx *ctx);

/* Prepares the engine's part of 'dp': upcalls are disabled.  When 'dp' is
 * destroyed, first upcalls end, then threads. */
void dpif_xdp_engine_init(struct dpif_xdp_dp *dp);
void dpif_xdp_engine_destroy(struct dpif_xdp_dp *dp);
void dpif_xdp_upcall_init(struct dpif_xdp_dp *dp);
void dpif_xdp_upcall_stop(struct dpif_xdp_dp *dp);
void dpif_xdp_upcall_destroy(struct dpif_xdp_dp *dp);

/* Ends upcalls to ofproto.  Called by the main thread, which holds the lock
 * while upcalls are disabled. */
void dpif_xdp_upcall_forget(struct dpif_xdp_dp *);

/* Whether ofproto has ever enabled upcalls. */
bool dpif_xdp_upcalls_began(const struct dpif_xdp_dp *);

/* Each as the member of struct dpif_class with the same name. */
void dpif_xdp_register_upcall_cb(struct dpif *, upcall_callback *, void *aux);
void dpif_xdp_enable_upcall(struct dpif *);
void dpif_xdp_disable_upcall(struct dpif *);

/* Settings of the threads, which are replaced if they change: the CPUs to
 * which each is bound, NULL for none (other_config:pmd-cpu-mask), and how many
 * entries each signature cache may have. */
void dpif_xdp_threads_set_cpu_mask(struct dpif_xdp_dp *dp, const char *)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_threads_set_cache_size(struct dpif_xdp_dp *dp, uint32_t)
    OVS_REQUIRES(dpif_xdp_port_mutex);
uint32_t dpif_xdp_threads_cache_size(const struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Stops the threads. */
void dpif_xdp_threads_stop(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Gives each queue of 'port' to the thread with the least to do.  Returns 0,
 * or a positive errno with a sentence in '*errorp', which the caller frees:
 * then none is given. */
int dpif_xdp_threads_add_port(struct dpif_xdp_dp *dp,
                              struct dpif_xdp_port *port, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Takes the queues of 'port' from their threads.  When this returns, no thread
 * uses them. */
void dpif_xdp_threads_remove_port(struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Starts and stops the thread for what programs sample, which dp->progs are
 * there to take. */
void dpif_xdp_sampler_start(struct dpif_xdp_dp *dp);
void dpif_xdp_sampler_stop(struct dpif_xdp_dp *dp);

/* Samples that programs took: how many the thread has handled, and how many
 * were lost because it was too slow, or their flow had gone. */
void dpif_xdp_sampler_get_stats(const struct dpif_xdp_dp *dp, uint64_t *n,
                                uint64_t *n_lost);

/* Handles what waits on 'port', whose queues no engine thread polls. */
void dpif_xdp_poll_port(struct dpif_xdp_dp *, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Adds the lookup statistics of 'dp' to '*sum'.  Any thread. */
void dpif_xdp_threads_get_stats(struct dpif_xdp_dp *dp,
                                struct dpif_xdp_cls_stats *sum);
void dpif_xdp_threads_report(const struct dpif_xdp_dp *, struct json *report)
    OVS_REQUIRES(dpif_xdp_port_mutex);

void dpif_xdp_senders_init(struct dpif_xdp_dp *);
void dpif_xdp_senders_destroy(struct dpif_xdp_dp *);

/* Before dpif_xdp_sender_run() of all ports; for poll_block(). */
void dpif_xdp_senders_run(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_senders_wait(const struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* What the engine sent to 'port', and what did not leave.  Returns whether it
 * has an AF_XDP socket now. */
bool dpif_xdp_sender_get_stats(struct dpif_xdp_port *port, uint64_t *n_sent,
                               uint64_t *n_dropped);

/* The packets that the engine has tried to send to 'port', a struct
 * dpif_xdp_port, and that did not get to its device.  Never fewer than
 * before. */
uint64_t dpif_xdp_sender_all_drops(void *port);

/* Closes 'sock', which was one of 'port' or is NULL.  What it sent and dropped
 * stays counted for 'port'. */
void dpif_xdp_sender_retire(struct dpif_xdp_port *port,
                            struct oxdp_sock *sock);

/* Prepare and free what 'port->sender' is, of a new port. */
void dpif_xdp_sender_init(struct dpif_xdp_sender *);
void dpif_xdp_sender_destroy(struct dpif_xdp_sender *);

/* Open and close what the engine needs to send to ports at tcx.  Opening
 * returns 0, or a positive errno with a sentence. */
int dpif_xdp_sender_prepare(struct dpif_xdp_dp *dp, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_sender_close(struct dpif_xdp_dp *dp, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Opens what the engine needs to send into tunnels by the routes of the host:
 * 0, or a positive errno with a sentence. */
int dpif_xdp_host_tunnels_prepare(struct dpif_xdp_dp *dp, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Whether 'port' has not lost an AF_XDP socket together with its device. */
bool dpif_xdp_sender_is_alive(struct dpif_xdp_port *port);

/* Gives 'port' an AF_XDP socket if it became busy, and takes it away again. */
void dpif_xdp_sender_run(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex);
void dpif_xdp_sender_wait(const struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Closes that AF_XDP socket of 'port' if there is one.  dpif_xdp_sender_run()
 * opens the next. */
void dpif_xdp_sender_stop(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex);

#endif /* ovs/engine/engine.h */
