/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel lets us do is found out by doing it, with the programs and the memory of the daemon, on veth pairs in
 * a network namespace of its own.  A child process does it: the namespace and everything in it end with that, also if
 * it crashes, and nothing is pinned. */
#include "tools/check/check.h"

#include <errno.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/kernel/made_device.h"
#include "core/kernel/netdev_genl.h"
#include "core/kernel/redirect.h"
#include "core/kernel/shortcut.h"
#include "core/kernel/veth.h"
#include "core/programs/progs.h"
#include "core/programs/tcx.h"
#include "core/xsk/sock.h"
#include "core/xsk/umem.h"
#include "tools/check/fact.h"

#define MB (1024 * 1024)
#define LIMIT_S 60              /* Loading programs takes a second at most. */

#define NEAR "oxdp-near"
#define FAR "oxdp-far"
#define XDP_PORT 1
#define TCX_PORT 2

static void probe(void);
static struct oxdp_progs *probe_programs(void);
static struct oxdp_umem *probe_umem(void);
static bool probe_veth(void);
static void probe_native(struct oxdp_progs *, struct oxdp_umem *);
static void probe_tcx(struct oxdp_progs *);
static void probe_questions(void);

void oxdp_check_probe(void)
{
    int fds[2], status = 0;
    pid_t child;

    fflush(stdout);
    if (pipe(fds) || (child = fork()) < 0) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "programs", NULL, "nothing was tried: no process could be started (%s)",
                  strerror(errno));
        return;
    }
    if (!child) {
        close(fds[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(LIMIT_S);
        oxdp_facts_send_to(fds[1]);
        probe();
        _exit(0);
    }
    close(fds[1]);
    oxdp_facts_receive(fds[0]);
    close(fds[0]);
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        oxdp_fact(OXDP_REFUSED, OXDP_HOST, "programs", "report it: ovs-xdp-report",
                  "trying the programs ended with signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
}

static void probe(void)
{
    int err = unshare(CLONE_NEWNET) ? -errno : 0;
    struct oxdp_progs *progs = probe_programs();
    struct oxdp_umem *umem = probe_umem();

    if (err) {
        oxdp_fact(OXDP_WARNING, OXDP_HOST, "trial", "run it as root to know more",
                  "attaching programs was not tried: no network namespace could be made for that (%s)",
                  strerror(-err));
    } else if (probe_veth()) {
        if (progs && umem) {
            probe_native(progs, umem);
        }
        if (progs) {
            probe_tcx(progs);
        }
        probe_questions();
    }
    oxdp_progs_unload(progs);
    oxdp_umem_destroy(umem);
}

static struct oxdp_progs *probe_programs(void)
{
    const struct oxdp_progs_config config = { .max_ports = 16, .max_sockets = 64, .n_flows = 1024 };
    struct oxdp_progs *progs = NULL;
    char *error = NULL;

    if (oxdp_progs_load(&config, &progs, &error)) {
        oxdp_fact(OXDP_REFUSED, OXDP_HOST, "programs",
                  "see the privileges above; if they are there, report it with the kernel's release",
                  "the kernel refuses the switch's program: %s", error ? error : "no reason was given");
    } else {
        oxdp_fact(OXDP_OK, OXDP_HOST, "programs", NULL, "the kernel accepts the switch's XDP program");
    }
    free(error);
    return progs;
}

/* As much as a datapath locks by default. */
static struct oxdp_umem *probe_umem(void)
{
    const unsigned int megabytes = OXDP_DEFAULT_FRAMES / 1024 * OXDP_FRAME_SIZE / 1024;
    bool unlimited = oxdp_check_has_capability(CAP_IPC_LOCK);
    struct oxdp_umem *umem = NULL;
    struct rlimit limit = { 0 };
    int err = oxdp_umem_create(OXDP_DEFAULT_FRAMES, &umem);

    getrlimit(RLIMIT_MEMLOCK, &limit);
    unlimited |= limit.rlim_cur == RLIM_INFINITY;
    switch (-err) {
    case 0:
        oxdp_fact(OXDP_OK, OXDP_HOST, "memlock", NULL, "%u MB of packet memory can be locked%s", megabytes,
                  unlimited ? "; no limit" : "");
        break;
    case ENOBUFS:
        oxdp_fact(OXDP_REFUSED, OXDP_HOST, "memlock",
                  "LimitMEMLOCK=infinity in the daemon's unit (\"ulimit -l unlimited\"), or CAP_IPC_LOCK, or a smaller "
                  "other_config:xdp-umem-frames",
                  "%u MB of packet memory are wanted, the limit on locked memory is %llu kB",
                  megabytes, (unsigned long long) limit.rlim_cur / 1024);
        break;
    case EAFNOSUPPORT:
        oxdp_fact(OXDP_REFUSED, OXDP_HOST, "af-xdp", "a kernel with CONFIG_XDP_SOCKETS=y",
                  "the kernel has no AF_XDP sockets");
        break;
    default:
        oxdp_fact(OXDP_REFUSED, OXDP_HOST, "af-xdp", NULL, "%u MB of packet memory cannot be registered: %s", megabytes,
                  strerror(-err));
        break;
    }
    return umem;
}

static bool probe_veth(void)
{
    int err = oxdp_veth_create(NEAR, FAR, 1, 1500);

    err = err ? err : oxdp_device_up(NEAR);
    err = err ? err : oxdp_device_up(FAR);
    if (err) {
        oxdp_fact(OXDP_REFUSED, OXDP_HOST, "veth",
                  err == -EOPNOTSUPP ? "a kernel with CONFIG_VETH (modprobe veth)" : NULL,
                  "a veth pair, which internal ports are, cannot be made: %s", strerror(-err));
        return false;
    }
    oxdp_fact(OXDP_OK, OXDP_HOST, "veth", NULL, "veth pairs can be made, for internal ports");
    return true;
}

static void probe_native(struct oxdp_progs *progs, struct oxdp_umem *umem)
{
    int ifindex = if_nametoindex(NEAR), fd;
    struct oxdp_sock *sock = NULL;
    char *error = NULL;
    int err = oxdp_sock_open(umem, ifindex, 0, false, 64, &sock);

    if (err) {
        oxdp_fact(OXDP_REFUSED, OXDP_HOST, "af-xdp", NULL, "no AF_XDP socket can be opened: %s", strerror(-err));
        return;
    }
    oxdp_fact(OXDP_OK, OXDP_HOST, "af-xdp", NULL, "AF_XDP sockets can be opened");
    fd = oxdp_sock_fd(sock);
    if (oxdp_progs_attach(progs, ifindex, true, true, XDP_PORT, &fd, 1, &error)) {
        oxdp_fact(OXDP_REFUSED, OXDP_HOST, "xdp", NULL, "the program cannot be attached to a veth as native XDP: %s",
                  error);
    } else {
        oxdp_fact(OXDP_OK, OXDP_HOST, "xdp", NULL,
                  "native XDP can be attached to a veth, which then takes redirected frames%s",
                  oxdp_redirect_works(FAR) ? "" : " once its GRO is on");
        oxdp_progs_detach(progs, ifindex);
    }
    free(error);
    oxdp_sock_close(sock);
}

static void probe_tcx(struct oxdp_progs *progs)
{
    char *error = NULL;

    if (oxdp_tcx_open(progs, "oxdp", 1, &error)
        || oxdp_tcx_attach(progs, if_nametoindex(NEAR), TCX_PORT, false, &error)) {
        oxdp_fact(OXDP_REFUSED, OXDP_HOST, "tcx", NULL, "no program for packets of sockets can be attached: %s",
                  error ? error : "no reason was given");
    } else if (oxdp_tcx_is_native()) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "tcx", NULL, "tcx links can be attached");
    } else {
        oxdp_fact(OXDP_OK, OXDP_HOST, "tcx", NULL,
                  "the kernel has no tcx (before Linux 6.6); clsact filters can be attached instead");
    }
    free(error);
}

/* What makes a difference only in speed or knowledge. */
static void probe_questions(void)
{
    uint64_t features;

    if (oxdp_netdev_features(if_nametoindex(NEAR), &features)) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "netdev-genl", NULL,
                  "the kernel does not say what devices can do with XDP (before Linux 6.3); the daemon tries it "
                  "instead");
    } else {
        oxdp_fact(OXDP_OK, OXDP_HOST, "netdev-genl", NULL,
                  "the kernel says what devices can do with XDP, and when that changes");
    }
    if (oxdp_shortcut_supported()) {
        oxdp_fact(OXDP_OK, OXDP_HOST, "redirect-peer", NULL, "packets can be redirected into a veth's peer");
    } else {
        oxdp_fact(OXDP_OK, OXDP_HOST, "redirect-peer", NULL,
                  "not used: the kernel would not count such packets (before Linux 6.7), or has no BTF; packets into "
                  "containers go through the veth");
    }
}
