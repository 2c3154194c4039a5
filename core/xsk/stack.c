/* SPDX-License-Identifier: Apache-2.0 */
#include "core/xsk/stack.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH 32u

/* Bytes of frames under way, to all devices together, as for an AF_XDP socket. */
#define SEND_BUFFER (4 << 20)

int oxdp_stack_open(bool seen_by_egress)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);     /* Protocol 0 receives nothing. */
    int buffer = SEND_BUFFER, bypass = !seen_by_egress;

    if (fd < 0) {
        return -errno;
    }
    if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof bypass)) {
        int err = -errno;

        close(fd);
        return err;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);        /* Else the kernel's default does. */
    return fd;
}

/* Whether after this error the device will not take the next frame either. */
static int is_lasting(int error)
{
    return error == ENETDOWN || error == ENXIO || error == ENODEV;
}

uint32_t oxdp_stack_send(int fd, int ifindex, const struct iovec frames[], uint32_t n_parts, uint32_t n,
                         uint32_t *ret_sent)
{
    struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = ifindex };
    struct mmsghdr messages[BATCH];
    uint32_t done = 0;

    *ret_sent = 0;
    while (done < n) {
        uint32_t n_now = n - done < BATCH ? n - done : BATCH;
        int sent;

        memset(messages, 0, n_now * sizeof *messages);
        for (uint32_t i = 0; i < n_now; i++) {
            messages[i].msg_hdr.msg_name = &to;
            messages[i].msg_hdr.msg_namelen = sizeof to;
            messages[i].msg_hdr.msg_iov = (struct iovec *) &frames[(done + i) * n_parts];
            messages[i].msg_hdr.msg_iovlen = n_parts;
        }
        sent = sendmmsg(fd, messages, n_now, MSG_DONTWAIT);
        if (sent > 0) {
            done += sent;
            *ret_sent += sent;
        } else if (errno == EMSGSIZE) {
            return done;
        } else if (is_lasting(errno)) {
            return n;
        } else if (errno != EINTR) {
            done++;
        }
    }
    return done;
}
