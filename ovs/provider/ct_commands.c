/* SPDX-License-Identifier: Apache-2.0 */
/* Open vSwitch's commands that walk over all connections, which takes a second
 * or two for a million: a thread runs them, and the main thread goes on.
 *
 * They run one after the other.  The main thread takes them, opens the
 * datapath, and sends the answers.  A command of a datapath of another type
 * runs in the main thread. */
#include <config.h>

#include "ovs/provider/ct_commands.h"

#include <errno.h>
#include <string.h>

#include "dpif.h"
#include "latch.h"
#include "openvswitch/list.h"
#include "ovs-atomic.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"
#include "ovs/base/threads.h"
#include "ovs/provider/ct_dpif.h"
#include "ovs/provider/provider_private.h"
#include "sset.h"
#include "svec.h"
#include "unixctl.h"
#include "util.h"

#define AT_ONCE 256             /* Connections, before other threads may free
                                 * what this one could have seen. */

/* As Open vSwitch registered it. */
struct command {
    const char *name;
    unixctl_cb_func *cb;
    void *aux;
};

struct request {
    struct ovs_list node;
    struct unixctl_conn *conn;
    const struct command *command;
    struct svec words;
    struct dpif *dpif;
    uint32_t n_seen;                    /* Connections. */
    bool cut;                           /* It was told to end before that. */
    bool success;
    char *answer;                       /* NULL: none yet. */
};

static struct command commands[] = {
    { .name = "dpctl/dump-conntrack" },
    { .name = "dpctl/flush-conntrack" },
    { .name = "dpctl/ct-stats-show" },
    { .name = "dpctl/ct-bkts" },
};

/* The main thread's.  The first runs. */
static struct ovs_list requests = OVS_LIST_INITIALIZER(&requests);
static bool has_thread;
static pthread_t thread;

static __thread struct request *running;        /* By this thread. */
static struct latch answered;
static atomic_bool stop;

int __real_dpif_open(const char *name, const char *type, struct dpif **);
int __wrap_dpif_open(const char *name, const char *type, struct dpif **);
void __real_dpif_close(struct dpif *);
void __wrap_dpif_close(struct dpif *);
void __real_unixctl_command_reply(struct unixctl_conn *, const char *);
void __wrap_unixctl_command_reply(struct unixctl_conn *, const char *);
void __real_unixctl_command_reply_error(struct unixctl_conn *, const char *);
void __wrap_unixctl_command_reply_error(struct unixctl_conn *, const char *);
void __real_unixctl_server_run(struct unixctl_server *);
void __wrap_unixctl_server_run(struct unixctl_server *);
void __real_unixctl_server_wait(struct unixctl_server *);
void __wrap_unixctl_server_wait(struct unixctl_server *);

/* A thread must not: to open a datapath is to open its ports, which the main
 * thread may be about to delete. */
int
__wrap_dpif_open(const char *name, const char *type, struct dpif **dpifp)
{
    if (!running) {
        return __real_dpif_open(name, type, dpifp);
    }
    if (strcmp(name, dpif_base_name(running->dpif))
        || strcmp(type, dpif_type(running->dpif))) {
        *dpifp = NULL;
        return ENODEV;
    }
    *dpifp = running->dpif;
    return 0;
}

void
__wrap_dpif_close(struct dpif *dpif)
{
    if (!running || dpif != running->dpif) {
        __real_dpif_close(dpif);
    }
}

static void
keep_answer(bool success, const char *answer)
{
    running->success = success;
    running->answer = xstrdup(answer ? answer : "");
}

void
__wrap_unixctl_command_reply(struct unixctl_conn *conn, const char *result)
{
    if (running) {
        keep_answer(true, result);
    } else {
        __real_unixctl_command_reply(conn, result);
    }
}

void
__wrap_unixctl_command_reply_error(struct unixctl_conn *conn,
                                   const char *error)
{
    if (running) {
        keep_answer(false, error);
    } else {
        __real_unixctl_command_reply_error(conn, error);
    }
}

int
dpif_xdp_ct_command_dump_next(struct dpif *dpif,
                              struct ct_dpif_dump_state *state,
                              struct ct_dpif_entry *entry)
{
    if (running) {
        atomic_read_relaxed(&stop, &running->cut);
        if (running->cut) {
            return EOF;
        }
        if (++running->n_seen % AT_ONCE == 0) {
            ovsrcu_quiesce();
        }
    }
    return dpif_xdp_ct_dump_next(dpif, state, entry);
}

/* The mutex of the tables keeps what this sees, RCU is not needed. */
int
dpif_xdp_ct_command_flush(struct dpif *dpif, const uint16_t *zone,
                          const struct ct_dpif_tuple *tuple)
{
    int error;

    if (!running || tuple) {
        return dpif_xdp_ct_flush(dpif, zone, tuple);
    }
    ovsrcu_quiesce_start();
    error = dpif_xdp_ct_flush(dpif, zone, NULL);
    ovsrcu_quiesce_end();
    return error;
}

static void *
run_request(void *request_)
{
    struct request *request = request_;

    running = request;
    request->command->cb(request->conn, request->words.n,
                         (const char **) request->words.names,
                         request->command->aux);
    running = NULL;
    latch_set(&answered);
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
        thread = ovs_thread_create("ct_command", run_request, first_request());
    } else {
        run_request(first_request());
    }
}

static void
end_first(void)
{
    struct request *request = first_request();

    if (has_thread) {
        xpthread_join(thread, NULL);
    }
    latch_poll(&answered);
    if (!request->answer || request->cut) {
        unixctl_command_reply_error(request->conn, "the datapath is gone");
    } else if (request->success) {
        unixctl_command_reply(request->conn, request->answer);
    } else {
        unixctl_command_reply_error(request->conn, request->answer);
    }
    dpif_close(request->dpif);
    svec_destroy(&request->words);
    ovs_list_remove(&request->node);
    free(request->answer);
    free(request);
}

void
dpif_xdp_ct_commands_end(void)
{
    atomic_store_relaxed(&stop, true);
    while (!ovs_list_is_empty(&requests)) {
        end_first();
        has_thread = false;             /* The others have not begun. */
    }
    atomic_store_relaxed(&stop, false);
}

/* The full name of the datapath that a command takes whose first word is
 * 'word' (NULL: it has none): the one with that name, else the only one that
 * there is.  NULL: it takes none.  The caller frees it. */
static char *
find_datapath(const char *word)
{
    struct sset types = SSET_INITIALIZER(&types);
    struct sset all = SSET_INITIALIZER(&all);
    const char *type, *found = NULL;
    char *full;

    dp_enumerate_types(&types);
    SSET_FOR_EACH (type, &types) {
        struct sset names = SSET_INITIALIZER(&names);
        const char *base;

        dp_enumerate_names(type, &names);
        SSET_FOR_EACH (base, &names) {
            sset_add_and_free(&all, xasprintf("%s@%s", type, base));
        }
        sset_destroy(&names);
    }
    sset_destroy(&types);
    if (word && sset_contains(&all, word)) {
        found = word;
    } else if (sset_count(&all) == 1) {
        found = SSET_FIRST(&all);
    }
    full = nullable_xstrdup(found);
    sset_destroy(&all);
    return full;
}

/* Opens the datapath that a command with this first word takes, if it is ours;
 * else returns NULL. */
static struct dpif *
open_ours(const char *word)
{
    char *full = find_datapath(word), *base, *type;
    struct dpif *dpif = NULL;

    if (full) {
        dp_parse_name(full, &base, &type);
        if (dpif_open(base, type, &dpif)) {
            dpif = NULL;
        } else if (dpif->dpif_class->ct_flush != dpif_xdp_ct_command_flush) {
            dpif_close(dpif);
            dpif = NULL;
        }
        free(base);
        free(type);
        free(full);
    }
    return dpif;
}

static void
take(struct unixctl_conn *conn, int argc, const char *argv[], void *command_)
{
    const struct command *command = command_;
    struct request *request;
    struct dpif *dpif;
    int first = 1;

    while (first < argc && argv[first][0] == '-' && argv[first][1]) {
        first++;                        /* Options. */
    }
    dpif = open_ours(first < argc ? argv[first] : NULL);
    if (!dpif) {
        command->cb(conn, argc, argv, command->aux);
        return;
    }
    request = xzalloc(sizeof *request);
    request->conn = conn;
    request->command = command;
    request->dpif = dpif;
    svec_init(&request->words);
    for (int i = 0; i < argc; i++) {
        svec_add(&request->words, argv[i]);
    }
    svec_terminate(&request->words);
    ovs_list_push_back(&requests, &request->node);
    if (ovs_list_is_singleton(&requests)) {
        begin_first();
    }
}

void
dpif_xdp_ct_command_take(const char *name, unixctl_cb_func **cb, void **aux)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;

    if (ovsthread_once_start(&once)) {
        latch_init(&answered);
        ovsthread_once_done(&once);
    }
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        if (!strcmp(name, commands[i].name)) {
            commands[i].cb = *cb;
            commands[i].aux = *aux;
            *cb = take;
            *aux = &commands[i];
        }
    }
}

void
__wrap_unixctl_server_run(struct unixctl_server *server)
{
    __real_unixctl_server_run(server);
    if (!ovs_list_is_empty(&requests) && latch_is_set(&answered)) {
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
        latch_wait(&answered);
    }
}
