/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the daemon: the kernel as it is not here.  The file that REFUSE names says what it refuses:
 *
 *     tcx         links at tcx, as before Linux 6.6
 *     update      other programs for links
 *     create      links with XDP
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ATTACH_TCX_INGRESS 46

static bool refuses(const char *what)
{
    const char *path = getenv("REFUSE");
    char text[64] = "";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        if (read(fd, text, sizeof text - 1) < 0) {
            text[0] = '\0';
        }
        close(fd);
    }
    return strstr(text, what);
}

int bpf_link_create(int prog_fd, int target_fd, enum bpf_attach_type type, const struct bpf_link_create_opts *opts)
{
    union bpf_attr attr = {
        .link_create = { .prog_fd = prog_fd, .target_fd = target_fd, .attach_type = type, .flags = opts->flags },
    };
    int fd;

    if ((type == ATTACH_TCX_INGRESS && refuses("tcx")) || (type == BPF_XDP && refuses("create"))) {
        return -(errno = EINVAL);
    }
    fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof attr);
    return fd < 0 ? -errno : fd;
}

int bpf_link_update(int link_fd, int prog_fd, const struct bpf_link_update_opts *opts)
{
    union bpf_attr attr = { .link_update = { .link_fd = link_fd, .new_prog_fd = prog_fd } };

    if (refuses("update")) {
        return -(errno = EINVAL);
    }
    return syscall(SYS_bpf, BPF_LINK_UPDATE, &attr, sizeof attr) ? -errno : 0;
}
