/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/if_xdp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/xsk/umem_private.h"

int oxdp_umem_register(const struct oxdp_umem *umem)
{
    struct xdp_umem_reg reg = {
        .addr = (uintptr_t) umem->base,
        .len = (uint64_t) umem->n_frames * OXDP_FRAME_SIZE,
        .chunk_size = OXDP_FRAME_SIZE,
    };
    int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -errno;
    }
    if (setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof reg)) {
        int err = -errno;

        close(fd);
        return err;
    }
    return fd;
}
