/* SPDX-License-Identifier: Apache-2.0 */
/* The tcx program that traces packets: a thread loads it when a trace begins, which takes half a second; meanwhile,
 * and after the trace, ports have the one that does not. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/programs/load.h"
#include "core/programs/progs_struct.h"
#include "core/programs/tcx_private.h"

/* What the thread has in hand.  It writes the last four, and nobody reads them until 'done'. */
struct oxdp_tcx_loading {
    pthread_t thread;
    const struct oxdp_tcx *tcx;
    struct oxdp_constants constants;
    bool over_ct;                       /* They have the tables of connections. */
    struct bpf_object *object;
    int err;
    char *error;
    bool done;                          /* Atomic. */
};

/* The thread. */
static void *work(void *loading_)
{
    struct oxdp_tcx_loading *loading = loading_;

    loading->err = oxdp_tcx_load_over(loading->tcx, &loading->constants, true, &loading->object, &loading->error);
    __atomic_store_n(&loading->done, true, __ATOMIC_RELEASE);
    return NULL;
}

int oxdp_tcx_trace_begin(struct oxdp_progs *progs)
{
    struct oxdp_tcx *tcx = progs->tcx;
    struct oxdp_tcx_loading *loading;
    int err;

    if (!tcx || tcx->traced || tcx->loading) {
        return 0;
    }
    loading = calloc(1, sizeof *loading);
    if (!loading) {
        return -ENOMEM;
    }
    loading->tcx = tcx;
    loading->constants = progs->memory.constants;
    loading->over_ct = tcx->over_ct;
    err = -pthread_create(&loading->thread, NULL, work, loading);
    if (err) {
        free(loading);
        return err;
    }
    tcx->loading = loading;
    return 0;
}

void oxdp_tcx_trace_stop(struct oxdp_tcx *tcx)
{
    struct oxdp_tcx_loading *loading = tcx->loading;

    if (loading) {
        oxdp_load_give_up(loading->thread);
        bpf_object__close(loading->object);
        free(loading->error);
        free(loading);
        tcx->loading = NULL;
    }
}

int oxdp_tcx_trace_go_on(struct oxdp_progs *progs, char **ret_error)
{
    struct oxdp_tcx *tcx = progs->tcx;
    struct oxdp_tcx_loading *loading;
    int err;

    if (!tcx || tcx->traced) {
        return 0;
    }
    loading = tcx->loading;
    if (!loading || !__atomic_load_n(&loading->done, __ATOMIC_ACQUIRE)) {
        err = oxdp_tcx_trace_begin(progs);
        return err ? err : -EAGAIN;
    }
    err = loading->err;
    if (err) {
        *ret_error = loading->error;
        loading->error = NULL;
    } else if (loading->over_ct == tcx->over_ct) {
        tcx->traced = loading->object;
        loading->object = NULL;
        oxdp_tcx_renew(progs);
    } else {
        err = -EAGAIN;                  /* Programs have begun to track connections. */
    }
    oxdp_tcx_trace_stop(tcx);
    return err;
}

void oxdp_tcx_trace_end(struct oxdp_progs *progs)
{
    struct oxdp_tcx *tcx = progs->tcx;
    struct bpf_object *traced;

    if (!tcx) {
        return;
    }
    traced = tcx->traced;
    tcx->traced = NULL;
    oxdp_tcx_renew(progs);
    bpf_object__close(traced);
    if (tcx->loading && __atomic_load_n(&tcx->loading->done, __ATOMIC_ACQUIRE)) {
        oxdp_tcx_trace_stop(tcx);       /* Else the next trace, or the end of the datapath, does. */
    }
}
