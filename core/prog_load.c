/* SPDX-License-Identifier: Apache-2.0 */
/* Programs over the maps of a datapath. */
#include "core/prog_private.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bpf/xdp.skel.h"
#include "core/capability.h"

static int load(const struct oxdp_progs *progs, struct xdp_bpf *skel, const struct dp_omit *omit,
                struct dp_capability *ret_capability, char **ret_error);
static int remember_warning(enum libbpf_print_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static __thread bool listening;
static __thread char last_warning[512];
static libbpf_print_fn_t others;        /* What this process has libbpf call for threads that do not listen. */

int oxdp_program_load(const struct oxdp_progs *progs, const struct dp_omit *omit, int *ret_fd,
                      struct dp_capability *ret_capability, char **ret_error)
{
    struct dp_capability capability;
    struct xdp_bpf *skel;
    char *refusal = NULL;
    const char *heard;
    int err, fd = -1;

    oxdp_libbpf_listen();
    skel = xdp_bpf__open();
    err = skel ? load(progs, skel, omit, ret_capability ? ret_capability : &capability, &refusal) : -errno;
    if (!err) {
        fd = fcntl(bpf_program__fd(skel->progs.oxdp_xdp), F_DUPFD_CLOEXEC, 3);
        err = fd < 0 ? -errno : 0;
    }
    xdp_bpf__destroy(skel);
    heard = oxdp_libbpf_heard();
    if (!err) {
        *ret_fd = fd;
        return 0;
    }
    if (refusal) {
        *ret_error = refusal;
        return err;
    }
    return oxdp_fail(err, ret_error, "the XDP program does not load (%s)%s%s%s", strerror(-err),
                     err == -EPERM ? ": run as root, or with CAP_BPF and CAP_NET_ADMIN" : "",
                     heard[0] ? "; libbpf says: " : "", heard);
}

static int load(const struct oxdp_progs *progs, struct xdp_bpf *skel, const struct dp_omit *omit,
                struct dp_capability *ret_capability, char **ret_error)
{
    int err = oxdp_capability_read(skel->obj, ret_capability, ret_error);

    skel->rodata_omit->dp_omit.parts |= omit->parts;
    skel->rodata_omit->dp_omit.words |= omit->words;
    skel->rodata_omit->dp_omit.ops |= omit->ops;
    skel->rodata->ports_mask = progs->n_direct - 1;
    skel->rodata->fast_path = progs->table != NULL;
    err = err ? err : oxdp_maps_share(progs, skel->obj, ret_error);
    return err ? err : xdp_bpf__load(skel);
}

void oxdp_libbpf_listen(void)
{
    libbpf_print_fn_t before = libbpf_set_print(remember_warning);

    if (before != remember_warning) {
        others = before;
    }
    listening = true;
    last_warning[0] = '\0';
}

const char *oxdp_libbpf_heard(void)
{
    listening = false;
    return last_warning;
}

static int remember_warning(enum libbpf_print_level level, const char *format, va_list args)
{
    if (!listening) {
        return others ? others(level, format, args) : 0;
    }
    if (level == LIBBPF_WARN && !last_warning[0]) {
        vsnprintf(last_warning, sizeof last_warning, format, args);
        last_warning[strcspn(last_warning, "\n")] = '\0';
    }
    return 0;
}
