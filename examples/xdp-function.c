/* SPDX-License-Identifier: Apache-2.0 */
/* xdp-function: runs one of the functions of functions.bpf.c on the devices of a container until it is told to end.
 *
 *     xdp-function block DEVICE
 *     xdp-function route DEVICE DEVICE
 *     xdp-function mark DEVICE
 *
 * Prints "ready" when packets pass and, when SIGINT or SIGTERM ends it, what it counted.  Its programs go with it. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "functions.skel.h"

static const char usage[] =
    "usage: xdp-function block DEVICE | xdp-function route DEVICE DEVICE | xdp-function mark DEVICE\n";

static int load(struct functions_bpf *, const unsigned int legs[2]);
static int attach(struct functions_bpf *, const char *function, unsigned int ifindex);

int main(int argc, char *argv[])
{
    const char *function = argc > 1 ? argv[1] : "";
    int n_legs = !strcmp(function, "route") ? 2 : 1;
    unsigned int legs[2] = { 0 };
    struct functions_bpf *skel;
    sigset_t ends;
    int number;

    if (argc != 2 + n_legs || (strcmp(function, "block") && strcmp(function, "route") && strcmp(function, "mark"))) {
        fputs(usage, stderr);
        return 2;
    }
    for (int i = 0; i < n_legs; i++) {
        legs[i] = if_nametoindex(argv[2 + i]);
        if (!legs[i]) {
            fprintf(stderr, "xdp-function: there is no device '%s'\n", argv[2 + i]);
            return 1;
        }
    }
    skel = functions_bpf__open();
    if (!skel || load(skel, legs)) {
        fprintf(stderr, "xdp-function: cannot load the programs (%s): run as root\n", strerror(errno));
        return 1;
    }
    for (int i = 0; i < n_legs; i++) {
        int err = attach(skel, function, legs[i]);

        if (err) {
            fprintf(stderr, "xdp-function: cannot attach to %s: %s\n", argv[2 + i], strerror(-err));
            return 1;
        }
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    puts("ready");
    fflush(stdout);
    sigwait(&ends, &number);
    printf("passed %llu, dropped %llu\n", (unsigned long long) skel->bss->passed,
           (unsigned long long) skel->bss->dropped);
    functions_bpf__destroy(skel);
    return 0;
}

static int load(struct functions_bpf *skel, const unsigned int legs[2])
{
    skel->rodata->legs[0] = legs[0];
    skel->rodata->legs[1] = legs[1];
    return functions_bpf__load(skel);
}

/* The link ends with this process. */
static int attach(struct functions_bpf *skel, const char *function, unsigned int ifindex)
{
    LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);
    int prog_fd = bpf_program__fd(bpf_object__find_program_by_name(skel->obj, function));
    int fd = bpf_link_create(prog_fd, ifindex, BPF_XDP, &opts);

    return fd < 0 ? fd : 0;
}
