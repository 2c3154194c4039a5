/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of connections that another version left, whose elements have another layout.  What they mean is the same as
 * long as DP_CT_VERSION is. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/ct/ct_private.h"

/* A table of theirs. */
struct their_table {
    const struct oxdp_ct_layout *layout;
    uint8_t *data;
    size_t bytes;
};

struct oxdp_ct_other {
    struct oxdp_ct_layout layout[OXDP_CT_N_TABLES];
    struct their_table table[OXDP_CT_N_TABLES];
};

static int map_table(struct their_table *table, const struct oxdp_ct_layout *layout, int fd)
{
    struct bpf_map_info info = { 0 };
    uint32_t len = sizeof info;
    void *data;

    if (!layout->size || bpf_obj_get_info_by_fd(fd, &info, &len) || info.value_size % layout->size) {
        return -ESTALE;
    }
    data = mmap(NULL, info.value_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        return -errno;
    }
    *table = (struct their_table) { .layout = layout, .data = data, .bytes = info.value_size };
    return 0;
}

/* Makes elements of 'size' bytes of theirs: 'n' at most. */
static void convert(const struct their_table *table, void *ours, size_t size, uint32_t n)
{
    const struct oxdp_ct_layout *layout = table->layout;
    const uint8_t *from = table->data;
    uint8_t *to = ours;

    for (; n && from < table->data + table->bytes; n--, from += layout->size, to += size) {
        for (uint32_t i = 0; i < layout->n; i++) {
            memcpy(to + layout->move[i].to, from + layout->move[i].from, layout->move[i].len);
        }
    }
}

/* Where they have what is at 'offset' of an element of ours; NULL: they have no such thing. */
static uint32_t *find_word(const struct their_table *table, size_t offset)
{
    for (uint32_t i = 0; i < table->layout->n; i++) {
        if (offset >= table->layout->move[i].to
            && offset + sizeof(uint32_t) <= table->layout->move[i].to + table->layout->move[i].len) {
            return (uint32_t *) (table->data + table->layout->move[i].from + offset - table->layout->move[i].to);
        }
    }
    return NULL;
}

/* As oxdp_ct_freeze(). */
static int freeze(struct oxdp_ct *ct)
{
    uint32_t *frozen = find_word(&ct->other->table[OXDP_CT_head], offsetof(struct dp_ct_head, frozen));

    if (!frozen) {
        return -ESTALE;
    }
    __atomic_store_n(frozen, 1, __ATOMIC_SEQ_CST);
    if (ct->config.grace) {
        ct->config.grace(ct->config.aux);
    }
    return 0;
}

/* Whether they have as many elements as their head says, and buckets are found as ours are. */
static bool is_consistent(const struct oxdp_ct_other *other, const struct dp_ct_head *head)
{
    static const enum oxdp_ct_table by_index[] = { OXDP_CT_keys, OXDP_CT_lives, OXDP_CT_addr6, OXDP_CT_cold };
    const struct their_table *buckets = &other->table[OXDP_CT_buckets];

    for (size_t i = 0; i < sizeof by_index / sizeof *by_index; i++) {
        const struct their_table *table = &other->table[by_index[i]];

        if (table->bytes / table->layout->size != head->n) {
            return false;
        }
    }
    return head->bucket_last + 1 == oxdp_ct_memory_buckets(head->n)
        && buckets->bytes / buckets->layout->size == head->bucket_last + 1u;
}

static int open_other(struct oxdp_ct *ct, const int old_fd[OXDP_CT_N_TABLES])
{
    struct oxdp_ct_other *other = ct->other;
    struct dp_ct_head head = { 0 };
    int err = 0;

    for (int i = 0; !err && i < OXDP_CT_N_TABLES; i++) {
        err = map_table(&other->table[i], &other->layout[i], old_fd[i]);
    }
    if (err) {
        return err;
    }
    convert(&other->table[OXDP_CT_head], &head, sizeof head, 1);
    if (head.magic != DP_CT_MAGIC || head.version != DP_CT_VERSION || !is_consistent(other, &head)) {
        return -ESTALE;
    }
    err = freeze(ct);
    err = err ? err : oxdp_ct_memory_create(head.n, false, NULL, &ct->old, ct->old_fd);
    if (err) {
        return err;
    }
#define X(NAME, TYPE) convert(&other->table[OXDP_CT_##NAME], ct->old.NAME, sizeof(TYPE), ct->old.n_##NAME);
    DP_CT_TABLES(X)
#undef X
    return 0;
}

int oxdp_ct_other_open(struct oxdp_ct *ct, const int old_fd[OXDP_CT_N_TABLES], const struct oxdp_ct_layout *layout)
{
    int err;

    ct->other = calloc(1, sizeof *ct->other);
    if (!ct->other) {
        return -ENOMEM;
    }
    memcpy(ct->other->layout, layout, sizeof ct->other->layout);
    err = open_other(ct, old_fd);
    if (err) {
        oxdp_ct_other_close(ct);
    }
    return err;
}

void oxdp_ct_other_refresh(struct oxdp_ct *ct)
{
    if (ct->other) {
        convert(&ct->other->table[OXDP_CT_lives], ct->old.lives, sizeof *ct->old.lives, ct->old.n_lives);
    }
}

uint32_t *oxdp_ct_other_no_seq_check(struct oxdp_ct *ct)
{
    return find_word(&ct->other->table[OXDP_CT_head], offsetof(struct dp_ct_head, no_seq_check));
}

void oxdp_ct_other_close(struct oxdp_ct *ct)
{
    for (int i = 0; ct->other && i < OXDP_CT_N_TABLES; i++) {
        if (ct->other->table[i].data) {
            munmap(ct->other->table[i].data, ct->other->table[i].bytes);
        }
    }
    free(ct->other);
    ct->other = NULL;
}
