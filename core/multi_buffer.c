/* SPDX-License-Identifier: Apache-2.0 */
#include "core/multi_buffer.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

/* Linux 6.6; absent from older headers. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif

static bool has_multi_buffer;

/* bind() looks at the flags before it looks for the device, of which there is none with the number 0. */
static void ask(void)
{
    struct sockaddr_xdp address = { .sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY | XDP_USE_SG };
    int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

    has_multi_buffer = fd >= 0 && bind(fd, (struct sockaddr *) &address, sizeof address) && errno == ENODEV;
    if (fd >= 0) {
        close(fd);
    }
}

bool oxdp_has_multi_buffer(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, ask);
    return has_multi_buffer;
}

uint32_t oxdp_max_mtu(void)
{
    return oxdp_has_multi_buffer() ? OXDP_JUMBO_MTU : OXDP_FRAME_MTU;
}

uint32_t oxdp_max_internal_mtu(void)
{
    return oxdp_has_multi_buffer() ? OXDP_JUMBO_MTU : OXDP_FRAME_TCX_MTU;
}
