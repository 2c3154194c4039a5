/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the daemon: the kernel as it is not here.  The file that REFUSE names says what it refuses, or does
 * late:
 *
 *     tcx         links at tcx, as before Linux 6.6
 *     update      other programs for links
 *     create      links with XDP
 *     load        all programs, as lockdown and security modules do
 *     large       programs that are large when the verifier has done with them, as if it had given up
 *     threads     threads, as RLIMIT_NPROC and the limit of a cgroup do
 *     epoll       to watch descriptors
 *     veth        to make veth pairs, as a kernel without them does
 *     cap_bpf cap_perfmon cap_net_raw    what takes this capability.  That is the kernel's own refusal: threads lose
 *                                        the
 *                 capability, and CAP_SYS_ADMIN, which includes two of them, and get them back
 *     busy        AF_XDP sockets, as while it still closes others on their queues; the first one makes $REFUSE.busy
 *     detach      programs leave devices, but each takes half a second; the first one makes $REFUSE.detach
 *     flush       what Open vSwitch does between a signal and the end of the daemon never ends
 *     slow        the verifier takes half a minute for a large program, as on a very busy machine, unless a signal
 *                 comes; the first one makes $REFUSE.slow
 */
#include <bpf/bpf.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ATTACH_TCX_INGRESS 46
#define LARGE (16 << 10)              /* Bytes of BPF. */
#define SLOW_SECONDS 30

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

/* Makes $REFUSE.'what', by which a test knows that it has come to this. */
static void leave_mark(const char *what)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s.%s", getenv("REFUSE"), what);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
}

typedef long next_syscall(long, ...);

/* Gives this thread the capabilities that it may have and that the file leaves it. */
static void follow_capabilities(next_syscall *next)
{
    static const struct {
        const char *name;
        int capability;
    } names[] = { { "cap_bpf", CAP_BPF }, { "cap_perfmon", CAP_PERFMON }, { "cap_net_raw", CAP_NET_RAW } };
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    uint64_t without = 0, effective;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        without |= refuses(names[i].name) ? UINT64_C(1) << names[i].capability | UINT64_C(1) << CAP_SYS_ADMIN : 0;
    }
    if (next(SYS_capget, &header, data)) {
        abort();
    }
    effective = (data[0].permitted | (uint64_t) data[1].permitted << 32) & ~without;
    if (effective != (data[0].effective | (uint64_t) data[1].effective << 32)) {
        data[0].effective = effective;
        data[1].effective = effective >> 32;
        if (next(SYS_capset, &header, data)) {
            abort();
        }
    }
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

int bpf_link_detach(int link_fd)
{
    union bpf_attr attr = { .link_detach = { .link_fd = link_fd } };
    struct timespec left = { .tv_nsec = 500 * 1000 * 1000 };

    if (refuses("detach")) {
        leave_mark("detach");
        while (nanosleep(&left, &left)) {
            continue;
        }
    }
    return syscall(SYS_bpf, BPF_LINK_DETACH, &attr, sizeof attr) ? -errno : 0;
}

int fflush(FILE *stream)
{
    int (*next)(FILE *) = (int (*)(FILE *)) dlsym(RTLD_NEXT, "fflush");

    while (stream == stderr && refuses("flush")) {
        pause();
    }
    return next(stream);
}

/* Whether program 'fd' is one of those that are larger than the smallest that serve a port. */
static bool is_large(next_syscall *next, int fd)
{
    struct bpf_prog_info info = { 0 };
    union bpf_attr attr = { .info = { .bpf_fd = fd, .info_len = sizeof info, .info = (unsigned long) &info } };

    return !next(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof attr) && info.xlated_prog_len > LARGE;
}

/* How libbpf asks the kernel. */
long syscall(long number, ...)
{
    next_syscall *next = (next_syscall *) dlsym(RTLD_NEXT, "syscall");
    long a[6], ret;
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(args, long);
    }
    va_end(args);
    if (number == SYS_bpf || number == SYS_capget) {
        follow_capabilities(next);
    }
    if (number != SYS_bpf || a[0] != BPF_PROG_LOAD) {
        return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    if (refuses("load")) {
        errno = EPERM;
        return -1;
    }
    if (refuses("slow") && ((const union bpf_attr *) a[1])->insn_cnt > LARGE / sizeof(struct bpf_insn)) {
        leave_mark("slow");
        if (nanosleep(&(struct timespec) { .tv_sec = SLOW_SECONDS }, NULL)) {
            errno = EAGAIN;
            return -1;
        }
    }
    ret = next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (ret >= 0 && refuses("large") && is_large(next, ret)) {
        close(ret);
        errno = E2BIG;
        return -1;
    }
    return ret;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    typeof(pthread_create) *next = (typeof(pthread_create) *) dlsym(RTLD_NEXT, "pthread_create");

    return refuses("threads") ? EAGAIN : next(thread, attr, start, arg);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    int (*next)(int, int, int, struct epoll_event *)
        = (int (*)(int, int, int, struct epoll_event *)) dlsym(RTLD_NEXT, "epoll_ctl");

    if (op == EPOLL_CTL_ADD && refuses("epoll")) {
        errno = ENOSPC;
        return -1;
    }
    return next(epfd, op, fd, event);
}

int socket(int domain, int type, int protocol)
{
    next_syscall *next = (next_syscall *) dlsym(RTLD_NEXT, "syscall");

    follow_capabilities(next);
    return next(SYS_socket, domain, type, protocol);
}

ssize_t send(int fd, const void *data, size_t len, int flags)
{
    const struct nlmsghdr *header = data;
    next_syscall *next = (next_syscall *) dlsym(RTLD_NEXT, "syscall");

    if (len > sizeof *header && header->nlmsg_len == len && header->nlmsg_type == RTM_NEWLINK
        && memmem(data, len, "veth", sizeof "veth") && refuses("veth")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return next(SYS_sendto, fd, data, len, flags, NULL, 0);
}

int bind(int fd, const struct sockaddr *address, socklen_t len)
{
    if (address->sa_family != AF_XDP || !refuses("busy")) {
        return syscall(SYS_bind, fd, address, len);
    }
    leave_mark("busy");
    errno = EBUSY;
    return -1;
}
