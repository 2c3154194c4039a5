/* SPDX-License-Identifier: Apache-2.0 */
#include "core/xsk/umem_private.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/xsk/later.h"

#define HUGE_PAGE (2u << 20)

static void *map_memory(size_t size);
static int init_stack(struct oxdp_umem *umem);
static void raise_memlock_limit(void);

int oxdp_umem_create(uint32_t n_frames, struct oxdp_umem **ret_umem)
    OXDP_NO_LOCK_ANALYSIS       /* Not shared yet. */
{
    struct oxdp_umem *umem;
    int err;

    if (!n_frames) {
        return -EINVAL;
    }
    umem = calloc(1, sizeof *umem);
    if (!umem) {
        return -ENOMEM;
    }
    umem->n_frames = n_frames;
    umem->spare_fd = -1;
    umem->made_ms = oxdp_now_ms();
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&umem->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_mutex_init(&umem->bind_lock, NULL);

    err = -ENOMEM;
    umem->base = map_memory((size_t) n_frames * OXDP_FRAME_SIZE);
    if (!umem->base) {
        goto error;
    }
    err = init_stack(umem);
    if (err) {
        goto error;
    }

    raise_memlock_limit();
    umem->spare_fd = oxdp_umem_register(umem);
    if (umem->spare_fd < 0) {
        err = umem->spare_fd;
        goto error;
    }
    *ret_umem = umem;
    return 0;

error:
    oxdp_umem_destroy(umem);
    return err;
}

void oxdp_umem_destroy(struct oxdp_umem *umem)
    OXDP_NO_LOCK_ANALYSIS       /* Not shared any more. */
{
    if (!umem) {
        return;
    }
    oxdp_later_wait(umem, 0);         /* Sockets on it that are being closed. */
    if (umem->spare_fd >= 0) {
        close(umem->spare_fd);
    }
    if (umem->base) {
        munmap(umem->base, (size_t) umem->n_frames * OXDP_FRAME_SIZE);
    }
    pthread_mutex_destroy(&umem->lock);
    pthread_mutex_destroy(&umem->bind_lock);
    free(umem->socks);
    free(umem->stack);
    free(umem->owner);
    free(umem);
}

void *oxdp_umem_base(const struct oxdp_umem *umem)
{
    return umem->base;
}

uint32_t oxdp_umem_n_frames(const struct oxdp_umem *umem)
{
    return umem->n_frames;
}

uint32_t oxdp_umem_n_free(const struct oxdp_umem *umem)
{
    return __atomic_load_n(&umem->n_free, __ATOMIC_RELAXED);
}

uint32_t oxdp_umem_get(struct oxdp_umem *umem, uint64_t addrs[], uint32_t n)
{
    return oxdp_umem_take(umem, OXDP_OWNER_CALLER, addrs, n);
}

uint32_t oxdp_umem_take(struct oxdp_umem *umem, uint16_t owner, uint64_t addrs[], uint32_t n)
{
    oxdp_lock_stack(umem);

    uint32_t left = umem->n_free;
    uint32_t taken = n < left ? n : left;

    for (uint32_t i = 0; i < taken; i++) {
        addrs[i] = (uint64_t) umem->stack[--left] * OXDP_FRAME_SIZE;
        oxdp_umem_set_owner(umem, addrs[i], owner);
    }
    __atomic_store_n(&umem->n_free, left, __ATOMIC_RELAXED);
    oxdp_unlock_stack(umem);
    return taken;
}

void oxdp_umem_put(struct oxdp_umem *umem, const uint64_t addrs[], uint32_t n)
{
    oxdp_lock_stack(umem);

    uint32_t n_free = umem->n_free;

    for (uint32_t i = 0; i < n; i++) {
        oxdp_umem_set_owner(umem, addrs[i], OXDP_OWNER_STACK);
        umem->stack[n_free++] = addrs[i] / OXDP_FRAME_SIZE;
    }
    __atomic_store_n(&umem->n_free, n_free, __ATOMIC_RELAXED);
    oxdp_unlock_stack(umem);
}

uint32_t oxdp_umem_recover(struct oxdp_umem *umem, uint16_t owner)
{
    uint32_t recovered = 0;

    for (uint32_t frame = 0; frame < umem->n_frames; frame++) {
        if (__atomic_load_n(&umem->owner[frame], __ATOMIC_RELAXED) == owner) {
            uint64_t addr = (uint64_t) frame * OXDP_FRAME_SIZE;

            oxdp_umem_put(umem, &addr, 1);
            recovered++;
        }
    }
    return recovered;
}

/* Huge pages where the kernel has them: 4096-byte frames would otherwise cost a TLB entry each.  A child
 * process must not inherit the pages: the kernel would have to copy pinned memory at fork. */
static void *map_memory(size_t size)
{
    size_t reserved = size + HUGE_PAGE;
    uint8_t *p = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1, 0);

    if (p == MAP_FAILED) {
        return NULL;
    }

    size_t before = -(uintptr_t) p % HUGE_PAGE;
    size_t after = reserved - before - size;

    if (before) {
        munmap(p, before);
    }
    munmap(p + before + size, after);
    p += before;
    madvise(p, size, MADV_HUGEPAGE);
    madvise(p, size, MADV_DONTFORK);
    if (madvise(p, size, MADV_POPULATE_WRITE) && errno == ENOMEM) {
        munmap(p, size);
        return NULL;
    }
    return p;
}

static int init_stack(struct oxdp_umem *umem)
    OXDP_NO_LOCK_ANALYSIS       /* Not shared yet. */
{
    umem->owner = calloc(umem->n_frames, sizeof *umem->owner);
    umem->stack = calloc(umem->n_frames, sizeof *umem->stack);
    if (!umem->owner || !umem->stack) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < umem->n_frames; i++) {
        umem->owner[i] = OXDP_OWNER_STACK;
        umem->stack[i] = umem->n_frames - 1 - i;
    }
    umem->n_free = umem->n_frames;
    return 0;
}

/* As far as it goes: only without CAP_IPC_LOCK does the kernel look at the limit (net/xdp/xdp_umem.c,
 * xdp_umem_account_pages), and then the registration says that it is too low. */
static void raise_memlock_limit(void)
{
    struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

    if (setrlimit(RLIMIT_MEMLOCK, &limit) && !getrlimit(RLIMIT_MEMLOCK, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_MEMLOCK, &limit);
    }
}
