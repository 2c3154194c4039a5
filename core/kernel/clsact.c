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
static bool has_ours(int ifindex);
static bool is_no_filter_of_ours(const struct nlmsghdr *answer, void *aux);
static bool is_other(const struct nlmsghdr *answer, void *search);
static bool read_filter(const struct nlmsghdr *answer, struct oxdp_clsact_filter *ret_filter, bool *ret_ours);
static bool has_our_name(const struct rtattr *options);

int oxdp_clsact_attach(int ifindex, int prog_fd, char **ret_error)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_INGRESS);
    LIBBPF_OPTS(bpf_tc_opts, filter, .handle = OXDP_CLSACT_HANDLE, .priority = OXDP_CLSACT_PRIORITY,
                .prog_fd = prog_fd);
    char name[IF_NAMESIZE] = "";
    int err;

    /* libbpf warns if there is a clsact already, which is no problem. */
    oxdp_libbpf_listen();
    err = bpf_tc_hook_create(&hook);
    if (!err || err == -EEXIST) {
        if (has_ours(ifindex)) {
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

int oxdp_clsact_put(int ifindex, bool egress, int prog_fd)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = egress ? BPF_TC_EGRESS : BPF_TC_INGRESS);
    LIBBPF_OPTS(bpf_tc_opts, filter, .handle = OXDP_CLSACT_HANDLE, .priority = OXDP_CLSACT_PRIORITY, .prog_fd = prog_fd,
                .flags = BPF_TC_F_REPLACE);
    int err;

    oxdp_libbpf_listen();
    err = bpf_tc_hook_create(&hook);
    if (!err || err == -EEXIST) {
        err = bpf_tc_attach(&hook, &filter);
    }
    oxdp_libbpf_heard();
    return err;
}

void oxdp_clsact_detach(int ifindex)
{
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_INGRESS);
    LIBBPF_OPTS(bpf_tc_opts, filter, .handle = OXDP_CLSACT_HANDLE, .priority = OXDP_CLSACT_PRIORITY);

    oxdp_libbpf_listen();
    if (has_ours(ifindex)) {
        bpf_tc_detach(&hook, &filter);
    }
    oxdp_libbpf_heard();
}

static bool has_ours(int ifindex)
{
    bool found = false;

    dump_filters(ifindex, TC_H_MIN_INGRESS, is_no_filter_of_ours, &found);
    return found;
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

/* Whether to read on: false, and true in 'found', if 'answer' is about our filter. */
static bool is_no_filter_of_ours(const struct nlmsghdr *answer, void *found)
{
    struct oxdp_clsact_filter filter;

    return !read_filter(answer, &filter, found) || !*(bool *) found;
}

/* Whether to read on: false if 'answer' is about the filter that was looked for.  That of a previous instance is no
 * other. */
static bool is_other(const struct nlmsghdr *answer, void *search_)
{
    struct search *search = search_;
    struct oxdp_clsact_filter filter;
    bool ours;

    if (!read_filter(answer, &filter, &ours) || filter.priority <= search->above || ours) {
        return true;
    }
    search->found = true;
    *search->ret_filter = filter;
    return false;
}

/* Reads an answer about a filter; false if it is about none. */
static bool read_filter(const struct nlmsghdr *answer, struct oxdp_clsact_filter *ret_filter, bool *ret_ours)
{
    const struct tcmsg *tc = NLMSG_DATA(answer);
    int len = TCA_PAYLOAD(answer);

    *ret_filter = (struct oxdp_clsact_filter) { .priority = TC_H_MAJ(tc->tcm_info) >> 16 };
    *ret_ours = false;
    /* Before the filters of a priority comes one without a handle, which stands for all of them. */
    if (answer->nlmsg_type != RTM_NEWTFILTER || !tc->tcm_handle) {
        return false;
    }
    for (const struct rtattr *attr = TCA_RTA(tc); RTA_OK(attr, len); attr = RTA_NEXT(attr, len)) {
        if (attr->rta_type == TCA_KIND) {
            snprintf(ret_filter->kind, sizeof ret_filter->kind, "%.*s", (int) RTA_PAYLOAD(attr),
                     (const char *) RTA_DATA(attr));
        } else if (attr->rta_type == TCA_OPTIONS && !strcmp(ret_filter->kind, "bpf")) {
            *ret_ours = ret_filter->priority == OXDP_CLSACT_PRIORITY && tc->tcm_handle == OXDP_CLSACT_HANDLE
                && has_our_name(attr);
        }
    }
    return true;
}

/* libbpf names a filter after its program.  The program itself only CAP_SYS_ADMIN can ask for its name. */
static bool has_our_name(const struct rtattr *options)
{
    static const char ours[] = OUR_NAME ":[";
    int len = RTA_PAYLOAD(options);

    for (const struct rtattr *attr = RTA_DATA(options); RTA_OK(attr, len); attr = RTA_NEXT(attr, len)) {
        if (attr->rta_type == TCA_BPF_NAME) {
            return RTA_PAYLOAD(attr) > sizeof ours && !strncmp(RTA_DATA(attr), ours, sizeof ours - 1);
        }
    }
    return false;
}
