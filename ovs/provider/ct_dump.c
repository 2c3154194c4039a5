/* SPDX-License-Identifier: Apache-2.0 */
/* dpctl/dump-conntrack.  To write the answer takes a second for a million
 * connections: a thread does it, and the main thread goes on.
 *
 * Requests are answered one after the other.  The main thread takes them,
 * and sends the answers.  What is not plain (a mistake, an option that is not
 * known here, a datapath of another type) is answered by Open vSwitch's own
 * command. */
#include <config.h>

#include "ovs/provider/provider_private.h"

#include <string.h>

#include "ct-dpif.h"
#include "dpif.h"
#include "latch.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/list.h"
#include "ovs-atomic.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"
#include "ovs/base/compat.h"
#include "ovs/base/threads.h"
#include "ovs/provider/ct_dpif.h"
#include "sset.h"
#include "unixctl.h"
#include "util.h"

#define COMMAND "dpctl/dump-conntrack"
#define AT_ONCE 256             /* Connections, before other threads may free
                                 * what this one could have seen. */

struct request {
    struct ovs_list node;
    struct unixctl_conn *conn;
    struct dpif *dpif;
    bool has_zone;
    uint16_t zone;
    bool verbose;
    bool with_statistics;
    struct ds answer;
};

/* Open vSwitch's command. */
static unixctl_cb_func *theirs;
static void *theirs_aux;

/* The main thread's.  The answer to the first is being written. */
static struct ovs_list requests = OVS_LIST_INITIALIZER(&requests);
static bool has_thread;
static pthread_t thread;

static struct latch written;
static atomic_bool stop;

void __real_unixctl_server_run(struct unixctl_server *);
void __wrap_unixctl_server_run(struct unixctl_server *);
void __real_unixctl_server_wait(struct unixctl_server *);
void __wrap_unixctl_server_wait(struct unixctl_server *);

static bool
is_stopped(void)
{
    bool is;

    atomic_read_relaxed(&stop, &is);
    return is;
}

static void *
write_answer(void *request_)
{
    struct request *request = request_;
    struct ct_dpif_dump_state *state;
    struct ct_dpif_entry entry;
    uint32_t n = 0;
    int n_buckets;

    if (!ct_dpif_dump_start(request->dpif, &state,
                            request->has_zone ? &request->zone : NULL,
                            &n_buckets)) {
        while (!is_stopped() && !ct_dpif_dump_next(state, &entry)) {
            ct_dpif_format_entry(&entry, &request->answer, request->verbose,
                                 request->with_statistics);
            ds_put_char(&request->answer, '\n');
            ct_dpif_entry_uninit(&entry);
            if (++n % AT_ONCE == 0) {
                ovsrcu_quiesce();
            }
        }
        ct_dpif_dump_done(state);
    }
    latch_set(&written);
    return NULL;
}

static struct request *
first_request(void)
{
    return CONTAINER_OF(ovs_list_front(&requests), struct request, node);
}

static void
begin_first(void)
{
    has_thread = !dpif_xdp_try_thread();
    if (has_thread) {
        thread = ovs_thread_create("ct_dump", write_answer, first_request());
    } else {
        write_answer(first_request());
    }
}

static void
end_first(void)
{
    struct request *request = first_request();

    if (has_thread) {
        xpthread_join(thread, NULL);
    }
    latch_poll(&written);
    if (is_stopped()) {
        unixctl_command_reply_error(request->conn, "the datapath is gone");
    } else {
        unixctl_command_reply(request->conn, ds_cstr(&request->answer));
    }
    dpif_close(request->dpif);
    ds_destroy(&request->answer);
    ovs_list_remove(&request->node);
    free(request);
}

void
dpif_xdp_ct_dumps_end(void)
{
    atomic_store_relaxed(&stop, true);
    while (!ovs_list_is_empty(&requests)) {
        end_first();
        has_thread = false;             /* The others have not begun. */
    }
    atomic_store_relaxed(&stop, false);
}

/* The full name of the datapath 'name', or with NULL of the only one that
 * there is.  NULL: there is none, or more than one.  The caller frees it. */
static char *
find_datapath(const char *name)
{
    struct sset types = SSET_INITIALIZER(&types);
    char *found = NULL;
    const char *type;
    int n = 0;

    dp_enumerate_types(&types);
    SSET_FOR_EACH (type, &types) {
        struct sset names = SSET_INITIALIZER(&names);
        const char *base;

        dp_enumerate_names(type, &names);
        SSET_FOR_EACH (base, &names) {
            char *full = xasprintf("%s@%s", type, base);

            if (!name || !strcmp(name, full)) {
                n++;
                free(found);
                found = full;
            } else {
                free(full);
            }
        }
        sset_destroy(&names);
    }
    sset_destroy(&types);
    if (n > 1) {
        free(found);
        found = NULL;
    }
    return found;
}

/* Opens datapath 'name' (NULL: the only one) if it is ours; else returns
 * NULL. */
static struct dpif *
open_ours(const char *name)
{
    char *full = find_datapath(name), *base, *type;
    struct dpif *dpif = NULL;

    if (full) {
        dp_parse_name(full, &base, &type);
        if (dpif_open(base, type, &dpif)) {
            dpif = NULL;
        } else if (dpif->dpif_class->ct_dump_start
                   != dpif_xdp_ct_dump_start) {
            dpif_close(dpif);
            dpif = NULL;
        }
        free(base);
        free(type);
        free(full);
    }
    return dpif;
}

/* Reads "[-m] [-s] [DATAPATH] [zone=ZONE]".  Returns false if that is not
 * what 'argv' has. */
static bool
parse(struct request *request, int argc, const char *argv[])
{
    int i = 1;

    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "-m") || !strcmp(argv[i], "--more")) {
            request->verbose = true;
        } else if (!strcmp(argv[i], "-s")
                   || !strcmp(argv[i], "--statistics")) {
            request->with_statistics = true;
        } else {
            return false;
        }
    }
    if (i < argc && ovs_scan(argv[argc - 1], "zone=%"SCNu16,
                             &request->zone)) {
        request->has_zone = true;
        argc--;
    }
    if (argc - i <= 1) {
        request->dpif = open_ours(i < argc ? argv[i] : NULL);
    }
    return request->dpif != NULL;
}

static void
dump_conntrack(struct unixctl_conn *conn, int argc, const char *argv[],
               void *aux OVS_UNUSED)
{
    struct request *request = xzalloc(sizeof *request);

    if (dpif_xdp_unixctl_wants_json(conn) || !parse(request, argc, argv)) {
        free(request);
        theirs(conn, argc, argv, theirs_aux);
        return;
    }
    request->conn = conn;
    ds_init(&request->answer);
    ovs_list_push_back(&requests, &request->node);
    if (ovs_list_is_singleton(&requests)) {
        begin_first();
    }
}

void
dpif_xdp_ct_dump_take(const char *name, unixctl_cb_func **cb, void **aux)
{
    if (!strcmp(name, COMMAND)) {
        if (!theirs) {
            latch_init(&written);
        }
        theirs = *cb;
        theirs_aux = *aux;
        *cb = dump_conntrack;
        *aux = NULL;
    }
}

void
__wrap_unixctl_server_run(struct unixctl_server *server)
{
    __real_unixctl_server_run(server);
    if (!ovs_list_is_empty(&requests) && latch_is_set(&written)) {
        end_first();
        if (!ovs_list_is_empty(&requests)) {
            begin_first();
        }
    }
}

void
__wrap_unixctl_server_wait(struct unixctl_server *server)
{
    __real_unixctl_server_wait(server);
    if (!ovs_list_is_empty(&requests)) {
        latch_wait(&written);
    }
}
