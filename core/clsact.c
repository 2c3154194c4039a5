/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clsact.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "core/prog_private.h"

#define OUR_NAME "oxdp_tcx"             /* Of the program in bpf/tcx.bpf.c. */

static int find(const struct bpf_tc_hook *hook, bool *ret_ours);

int oxdp_clsact_attach(int ifindex, int prog_fd, char **ret_error)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_INGRESS);
    LIBBPF_OPTS(bpf_tc_opts, filter, .handle = OXDP_CLSACT_HANDLE, .priority = OXDP_CLSACT_PRIORITY,
                .prog_fd = prog_fd);
    char name[IF_NAMESIZE] = "";
    bool ours;
    int err;

    /* That there is a clsact already is nothing to complain about, as libbpf does. */
    oxdp_libbpf_listen();
    err = bpf_tc_hook_create(&hook);
    if (!err || err == -EEXIST) {
        if (!find(&hook, &ours) && ours) {
            filter.flags = BPF_TC_F_REPLACE;
        }
        err = bpf_tc_attach(&hook, &filter);
        /* Another kind of filter has the priority (EINVAL), or another program (EEXIST). */
        if (err == -EINVAL || err == -EEXIST) {
            err = -EBUSY;
        }
    }
    oxdp_libbpf_heard();
    if (err == -EBUSY) {
        if_indextoname(ifindex, name);
        oxdp_fail(err, ret_error, "%s has a tc filter of somebody else at ingress with priority %u, which the switch needs: "
                  "remove that first (\"tc filter del dev %s ingress pref %u\"), or give it another priority",
                  name, OXDP_CLSACT_PRIORITY, name, OXDP_CLSACT_PRIORITY);
    }
    return err;
}

void oxdp_clsact_detach(int ifindex)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_INGRESS);
    LIBBPF_OPTS(bpf_tc_opts, filter, .handle = OXDP_CLSACT_HANDLE, .priority = OXDP_CLSACT_PRIORITY);
    bool ours;

    oxdp_libbpf_listen();
    if (!find(&hook, &ours) && ours) {
        bpf_tc_detach(&hook, &filter);
    }
    oxdp_libbpf_heard();
}

/* Looks for a program with our numbers.  0 if there is one, then '*ret_ours' says whether it is ours. */
static int find(const struct bpf_tc_hook *hook, bool *ret_ours)
{
    LIBBPF_OPTS(bpf_tc_opts, filter, .handle = OXDP_CLSACT_HANDLE, .priority = OXDP_CLSACT_PRIORITY);
    int err = bpf_tc_query(hook, &filter);

    *ret_ours = !err && oxdp_clsact_is_ours(filter.prog_id);
    return err;
}

bool oxdp_clsact_runs(int ifindex, int prog_fd)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_INGRESS);
    LIBBPF_OPTS(bpf_tc_opts, filter, .handle = OXDP_CLSACT_HANDLE, .priority = OXDP_CLSACT_PRIORITY);
    struct bpf_prog_info info = { 0 };
    uint32_t len = sizeof info;
    int err;

    oxdp_libbpf_listen();
    err = bpf_tc_query(&hook, &filter);
    oxdp_libbpf_heard();
    return !err && !bpf_obj_get_info_by_fd(prog_fd, &info, &len) && info.id == filter.prog_id;
}

bool oxdp_clsact_is_ours(uint32_t prog_id)
{
    struct bpf_prog_info info = { 0 };
    uint32_t len = sizeof info;
    int fd = bpf_prog_get_fd_by_id(prog_id);
    bool ours = fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) && !strcmp(info.name, OUR_NAME);

    if (fd >= 0) {
        close(fd);
    }
    return ours;
}
