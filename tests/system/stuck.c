/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the daemon: while the file that STUCK names exists, its AF_XDP sockets send nothing, as if the
 * queues of their devices stood still. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
    int domain = 0;
    socklen_t domain_len = sizeof domain;

    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len);
    if (domain == AF_XDP && getenv("STUCK") && !access(getenv("STUCK"), F_OK)) {
        errno = ENOBUFS;
        return -1;
    }
    return syscall(SYS_sendto, fd, data, len, flags, to, to_len);
}
