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

static int load(const struct oxdp_progs *progs, struct xdp_bpf *skel, struct dp_capability *ret_capability,
                char **ret_error);
static int remember_warning(enum libbpf_print_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static __thread char last_warning[512];
static __thread libbpf_print_fn_t old_print;

int oxdp_program_load(const struct oxdp_progs *progs, int *ret_fd, struct dp_capability *ret_capability,
                      char **ret_error)
{
    struct xdp_bpf *skel;
    char *refusal = NULL;
    const char *heard;
    int err, fd = -1;

    oxdp_libbpf_listen();
    skel = xdp_bpf__open();
    err = skel ? load(progs, skel, ret_capability, &refusal) : -errno;
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

static int load(const struct oxdp_progs *progs, struct xdp_bpf *skel, struct dp_capability *ret_capability,
                char **ret_error)
{
    int err = oxdp_capability_read(skel->obj, ret_capability, ret_error);

    skel->rodata->ports_mask = progs->n_direct - 1;
    skel->rodata->fast_path = progs->table != NULL;
    err = err ? err : oxdp_maps_share(progs, skel->obj, ret_error);
    return err ? err : xdp_bpf__load(skel);
}

void oxdp_libbpf_listen(void)
{
    last_warning[0] = '\0';
    old_print = libbpf_set_print(remember_warning);
}

const char *oxdp_libbpf_heard(void)
{
    libbpf_set_print(old_print);
    return last_warning;
}

static int remember_warning(enum libbpf_print_level level, const char *format, va_list args)
{
    if (level == LIBBPF_WARN && !last_warning[0]) {
        vsnprintf(last_warning, sizeof last_warning, format, args);
        last_warning[strcspn(last_warning, "\n")] = '\0';
    }
    return 0;
}
