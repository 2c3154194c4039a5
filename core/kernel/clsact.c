/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/clsact.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/kernel/libbpf_log.h"
#include "core/kernel/netlink_private.h"

#define OUR_NAME "oxdp_tcx"             /* Of the program in bpf/tcx.bpf.c. */

static int dump_filters(int ifindex, uint32_t where, bool (*each)(const struct nlmsghdr *, void *aux), void *aux);
static int find(const struct bpf_tc_hook *hook, bool *ret_ours);
static bool is_other(const struct nlmsghdr *answer, void *search);
static uint32_t program_of(const struct rtattr *options);

int oxdp_clsact_attach(int ifindex, int prog_fd, char **ret_error)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_INGRESS);
    LIBBPF_OPTS(bpf_tc_opts, filter, .handle = OXDP_CLSACT_HANDLE, .priority = OXDP_CLSACT_PRIORITY,
                .prog_fd = prog_fd);
    char name[IF_NAMESIZE] = "";
    bool ours;
    int err;

    /* libbpf warns if there is a clsact already, which is no problem. */
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
        oxdp_fail(err, ret_error, "%s has a foreign tc filter at ingress with priority %u, which the switch needs: "
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

struct search {
    uint32_t above;
    bool found;
    struct oxdp_clsact_filter *ret_filter;
};

bool oxdp_clsact_find_other(int ifindex, uint32_t priority, struct oxdp_clsact_filter *ret_filter)
{
    struct search search = { .above = priority, .ret_filter = ret_filter };

    return !dump_filters(ifindex, TC_H_MIN_INGRESS, is_other, &search) && search.found;
}

bool oxdp_clsact_has_egress(int ifindex)
{
    struct oxdp_clsact_filter filter;
    struct search search = { .ret_filter = &filter };

    return dump_filters(ifindex, TC_H_MIN_EGRESS, is_other, &search) || search.found;
}

static int dump_filters(int ifindex, uint32_t where, bool (*each)(const struct nlmsghdr *, void *aux), void *aux)
{
    struct oxdp_nl_request request = { .header.nlmsg_len = NLMSG_HDRLEN };
    struct tcmsg tc = {
        .tcm_family = AF_UNSPEC,
        .tcm_ifindex = ifindex,
        .tcm_parent = TC_H_MAKE(TC_H_CLSACT, where),
    };

    oxdp_nl_add_payload(&request, &tc, sizeof tc);
    return oxdp_nl_dump(NETLINK_ROUTE, &request, RTM_GETTFILTER, each, aux);
}

/* Whether to read on: false if 'answer' is about the filter that was looked for. */
static bool is_other(const struct nlmsghdr *answer, void *search_)
{
    struct search *search = search_;
    const struct tcmsg *tc = NLMSG_DATA(answer);
    struct oxdp_clsact_filter filter = { .priority = TC_H_MAJ(tc->tcm_info) >> 16 };
    int len = TCA_PAYLOAD(answer);
    uint32_t prog_id = 0;

    /* Before the filters of a priority comes one without a handle, which stands for all of them. */
    if (answer->nlmsg_type != RTM_NEWTFILTER || !tc->tcm_handle || filter.priority <= search->above) {
        return true;
    }
    for (const struct rtattr *attr = TCA_RTA(tc); RTA_OK(attr, len); attr = RTA_NEXT(attr, len)) {
        if (attr->rta_type == TCA_KIND) {
            snprintf(filter.kind, sizeof filter.kind, "%.*s", (int) RTA_PAYLOAD(attr), (const char *) RTA_DATA(attr));
        } else if (attr->rta_type == TCA_OPTIONS && !strcmp(filter.kind, "bpf")) {
            prog_id = program_of(attr);
        }
    }
    /* Also the filter of a previous instance. */
    if (filter.priority == OXDP_CLSACT_PRIORITY && prog_id && oxdp_clsact_is_ours(prog_id)) {
        return true;
    }
    search->found = true;
    *search->ret_filter = filter;
    return false;
}

static uint32_t program_of(const struct rtattr *options)
{
    int len = RTA_PAYLOAD(options);

    for (const struct rtattr *attr = RTA_DATA(options); RTA_OK(attr, len); attr = RTA_NEXT(attr, len)) {
        if (attr->rta_type == TCA_BPF_ID && RTA_PAYLOAD(attr) == sizeof(uint32_t)) {
            return *(const uint32_t *) RTA_DATA(attr);
        }
    }
    return 0;
}
