/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tables/buddy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ORDER 31
#define NOT_FREE 0xff

/* Free blocks of each order are in a doubly linked list through 'next' and 'prev', indexed by first element. */
struct oxdp_buddy {
    uint32_t n;
    uint32_t n_free;
    uint32_t head[MAX_ORDER + 1];
    uint32_t *next;
    uint32_t *prev;
    uint8_t *order;             /* Of the free block that begins here, or NOT_FREE. */
};

static uint32_t order_of(uint32_t n);
static void push(struct oxdp_buddy *, uint32_t first, uint32_t order);
static void unlink_block(struct oxdp_buddy *, uint32_t first);

struct oxdp_buddy *oxdp_buddy_create(uint32_t n)
{
    struct oxdp_buddy *b = calloc(1, sizeof *b);

    if (!b) {
        return NULL;
    }
    b->n = n;
    b->n_free = n;
    b->next = malloc((n + 1) * sizeof *b->next);
    b->prev = malloc((n + 1) * sizeof *b->prev);
    b->order = malloc(n + 1);
    if (!b->next || !b->prev || !b->order) {
        oxdp_buddy_destroy(b);
        return NULL;
    }
    memset(b->order, NOT_FREE, n + 1);
    memset(b->head, 0xff, sizeof b->head);

    /* The largest aligned blocks that tile the range, from its start. */
    for (uint32_t first = 0; first < n;) {
        uint32_t order = first ? __builtin_ctz(first) : MAX_ORDER;

        while (order && (order > 30 || (1u << order) > n - first)) {
            order--;
        }
        push(b, first, order);
        first += 1u << order;
    }
    return b;
}

void oxdp_buddy_destroy(struct oxdp_buddy *b)
{
    if (b) {
        free(b->next);
        free(b->prev);
        free(b->order);
        free(b);
    }
}

uint32_t oxdp_buddy_alloc(struct oxdp_buddy *b, uint32_t n)
{
    uint32_t wanted = order_of(n);
    uint32_t order = wanted;

    while (order <= MAX_ORDER && b->head[order] == OXDP_BUDDY_NONE) {
        order++;
    }
    if (order > MAX_ORDER) {
        return OXDP_BUDDY_NONE;
    }

    uint32_t first = b->head[order];

    unlink_block(b, first);
    while (order > wanted) {
        order--;
        push(b, first + (1u << order), order);
    }
    b->n_free -= 1u << wanted;
    return first;
}

void oxdp_buddy_free(struct oxdp_buddy *b, uint32_t first, uint32_t n)
{
    uint32_t order = order_of(n);

    b->n_free += 1u << order;
    while (order < MAX_ORDER) {
        uint32_t other = first ^ 1u << order;

        if (other >= b->n || b->order[other] != order) {
            break;
        }
        unlink_block(b, other);
        first &= ~(1u << order);
        order++;
    }
    push(b, first, order);
}

uint32_t oxdp_buddy_n_free(const struct oxdp_buddy *b)
{
    return b->n_free;
}

static uint32_t order_of(uint32_t n)
{
    return n > 1 ? 32 - __builtin_clz(n - 1) : 0;
}

static void push(struct oxdp_buddy *b, uint32_t first, uint32_t order)
{
    b->order[first] = order;
    b->prev[first] = OXDP_BUDDY_NONE;
    b->next[first] = b->head[order];
    if (b->head[order] != OXDP_BUDDY_NONE) {
        b->prev[b->head[order]] = first;
    }
    b->head[order] = first;
}

static void unlink_block(struct oxdp_buddy *b, uint32_t first)
{
    uint32_t next = b->next[first];
    uint32_t prev = b->prev[first];

    if (prev != OXDP_BUDDY_NONE) {
        b->next[prev] = next;
    } else {
        b->head[b->order[first]] = next;
    }
    if (next != OXDP_BUDDY_NONE) {
        b->prev[next] = prev;
    }
    b->order[first] = NOT_FREE;
}
