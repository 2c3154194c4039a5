/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the daemon, when programs and flows in the kernel stay.
 *
 * vswitchd takes its bridges down one after the other, first their OpenFlow
 * rules, while threads of ofproto still revalidate flows and answer upcalls:
 * from what is left of the rules they would conclude that flows must go, or
 * that packets are to be dropped.  So nothing changes flows any more from here
 * on.  With "exit --cleanup" they go all the same.
 *
 * A signal does not end the daemon by itself: the first thread that waits for
 * something calls hooks of Open vSwitch (lib/fatal-signal.c), with a mutex
 * held for which all others wait then.  A hook goes through all devices, whose
 * locks the main thread may hold, which in turn may wait for those threads.
 * So the kernel's alarm clock limits the hooks, and there are none while the
 * bridges are taken down. */
#include <config.h>

#include "ovs/provider/provider_private.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "dpif.h"
#include "fatal-signal.h"
#include "odp-util.h"
#include "openvswitch/ofpbuf.h"
#include "ovs-atomic.h"
#include "ovs/datapath/datapath.h"
#include "ovs/engine/engine.h"
#include "ovs/flows/flows.h"
#include "ovs/provider/ct_commands.h"
#include "ovs/provider/dpif_xdp.h"
#include "unixctl.h"

/* Seconds.  Who stops a daemon kills it after some ten to a hundred. */
#define LAST_OF_HOOKS 10        /* After a signal, or at exit(). */
#define LAST_OF_CLEANUP 30      /* After a signal. */

static atomic_bool leaving;

void __real_bridge_exit(bool delete_datapath);
void __wrap_bridge_exit(bool delete_datapath);

static void
end_upcalls(struct dpif_xdp_dp *dp, void *aux OVS_UNUSED)
{
    dpif_xdp_upcall_forget(dp);
}

/* As nobody else does it: after SIGALRM itself, a monitor (--monitor) would
 * start the daemon again. */
static void
end_now(int number OVS_UNUSED)
{
    kill(getpid(), SIGKILL);
}

/* Whatever the threads of this process wait for. */
static void
end_within(unsigned int seconds)
{
    signal(SIGALRM, end_now);
    alarm(seconds);
}

static void
limit_hooks(void *aux OVS_UNUSED)
{
    end_within(LAST_OF_HOOKS);
}

void
dpif_xdp_leave_init(void)
{
    fatal_signal_add_hook(limit_hooks, NULL, NULL, true);
}

static void
limit_cleanup(int number OVS_UNUSED)
{
    static volatile sig_atomic_t limited;

    if (!limited) {
        limited = true;
        end_within(LAST_OF_CLEANUP);
    }
}

/* From now on a signal ends the process at once: the next one takes over what
 * is in the kernel.  With 'cleanup' devices and programs would stay that
 * nobody wants any more: a signal says only that there is not much time. */
static void
take_signals(bool cleanup)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        if (signal(numbers[i], cleanup ? limit_cleanup : SIG_DFL)
            == SIG_IGN) {
            signal(numbers[i], SIG_IGN);
        }
    }
}

static unixctl_cb_func *exit_cb;        /* Of vswitchd's main(). */

/* Who has got the answer may send a signal. */
static void
take_exit(struct unixctl_conn *conn, int argc, const char *argv[], void *aux)
{
    take_signals(argc > 1 && !strcmp(argv[1], "--cleanup"));
    exit_cb(conn, argc, argv, aux);
}

void
dpif_xdp_leave_take(const char *name, unixctl_cb_func **cb)
{
    if (!strcmp(name, "exit")) {
        exit_cb = *cb;
        *cb = take_exit;
    }
}

/* vswitchd's main() calls this instead of bridge_exit(). */
void
__wrap_bridge_exit(bool delete_datapath)
{
    dpif_xdp_ct_commands_end();
    if (!delete_datapath) {
        atomic_store(&leaving, true);
        dpif_xdp_for_each(end_upcalls, NULL);
    } else {
        dpif_xdp_version_forget();
    }
    __real_bridge_exit(delete_datapath);
}

bool
dpif_xdp_is_leaving(void)
{
    bool is;

    atomic_read_relaxed(&leaving, &is);
    return is;
}

/* Instead of deleting a flow: reports its counts. */
static int
keep_flow(struct dpif *dpif, const struct dpif_flow_del *del)
{
    struct odputil_keybuf stub;
    struct dpif_flow flow;
    struct ofpbuf buffer;
    int error;

    ofpbuf_use_stub(&buffer, &stub, sizeof stub);
    error = dpif_xdp_flow_get(dpif, &(struct dpif_flow_get) {
                                  .key = del->key,
                                  .key_len = del->key_len,
                                  .ufid = del->ufid,
                                  .buffer = &buffer,
                                  .flow = &flow,
                              });
    if (!error && del->stats) {
        *del->stats = flow.stats;
    }
    ofpbuf_uninit(&buffer);
    return error;
}

/* Does what 'op' asks for as far as it leaves the flow as it is; returns
 * whether that was all. */
bool
dpif_xdp_leaving_operate(struct dpif *dpif, struct dpif_op *op)
{
    switch (op->type) {
    case DPIF_OP_FLOW_PUT:
        op->error = 0;
        return true;
    case DPIF_OP_FLOW_DEL:
        op->error = keep_flow(dpif, &op->flow_del);
        return true;
    case DPIF_OP_FLOW_GET:
    case DPIF_OP_EXECUTE:
    default:
        return false;
    }
}
