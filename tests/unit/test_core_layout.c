/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of shared tables: any change of any member of any of their types, in a copy of the BTF of the program
 * named on the command line, is another layout.  Then a program is refused before it is loaded (oxdp_layout_check()),
 * and a table of the previous instance is not adopted (oxdp_layout_hash()). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <bpf/btf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/constant.h"
#include "core/ct/ct.h"
#include "core/programs/layout.h"
#include "dp/ct_table.h"
#include "dp/path_table.h"

#define MAX_TYPES 1024

static const char *object;      /* A program's file. */

static struct btf *copy_of(const struct btf *btf)
{
    uint32_t size;
    const void *data = btf__raw_data(btf, &size);
    struct btf *copy = btf__new(data, size);

    assert_non_null(copy);
    return copy;
}

static uint64_t hash_of_tables(const struct btf *btf)
{
    uint64_t hash = 0;

#define X(NAME, TYPE) hash = oxdp_layout_hash(btf, &#TYPE[strlen("struct ")], hash);
    BPF_TABLES(X)
    DP_CT_TABLES(X)
    DP_PATH_TABLES(X)
#undef X
    return oxdp_layout_hash(btf, "dp_record", hash);
}

/* Marks the types that 'id' consists of. */
static void mark(const struct btf *btf, uint32_t id, bool used[MAX_TYPES])
{
    const struct btf_type *type = btf__type_by_id(btf, id);

    assert_true(id < MAX_TYPES);
    if (used[id]) {
        return;
    }
    used[id] = true;
    if (btf_is_mod(type) || btf_is_typedef(type)) {
        mark(btf, type->type, used);
    } else if (btf_is_array(type)) {
        mark(btf, btf_array(type)->type, used);
    } else if (btf_is_composite(type)) {
        for (uint32_t i = 0; i < btf_vlen(type); i++) {
            mark(btf, btf_members(type)[i].type, used);
        }
    }
}

enum change {
    CHANGE_MEMBER_NAME,
    CHANGE_MEMBER_OFFSET,
    CHANGE_MEMBER_TYPE,
    CHANGE_MEMBER_WIDTH,        /* It is a bit field. */
    N_MEMBER_CHANGES,
    CHANGE_SIZE = N_MEMBER_CHANGES,
    CHANGE_MEMBERS,             /* The last is missing. */
    CHANGE_ELEMENTS,
    N_CHANGES,
};

/* An integer that is not what member 'm' is. */
static uint32_t other_type(const struct btf *btf, const struct btf_member *m)
{
    long long size = btf__resolve_size(btf, m->type);
    int id = btf__find_by_name_kind(btf, size == 1 ? "unsigned int" : "unsigned char", BTF_KIND_INT);

    assert_true(id > 0);
    return id;
}

/* Makes the change in 'type', for its member 'i' if it is one of those.  Returns false if 'type' has no such thing. */
static bool make(const struct btf *btf, struct btf_type *type, enum change change, uint32_t i)
{
    struct btf_member *m = btf_is_composite(type) && i < btf_vlen(type) ? &btf_members(type)[i] : NULL;

    switch (change) {
    case CHANGE_MEMBER_NAME:
        return m && (m->name_off = btf__type_by_id(btf, btf__find_by_name(btf, "bpf_layouts"))->name_off);
    case CHANGE_MEMBER_OFFSET:
        return m && (m->offset += 8);
    case CHANGE_MEMBER_TYPE:
        return m && (m->type = other_type(btf, m));
    case CHANGE_MEMBER_WIDTH:
        return m && (type->info |= 1u << 31) && (m->offset |= 1u << 24);
    case CHANGE_SIZE:
        return btf_is_composite(type) && (type->size += 8);
    case CHANGE_MEMBERS:
        return btf_is_composite(type) && btf_vlen(type) && type->info--;
    case CHANGE_ELEMENTS:
        return btf_is_array(type) && ++btf_array(type)->nelems;
    default:
        return false;
    }
}

static unsigned int try_change(const struct btf *ours, uint32_t id, enum change change, uint32_t i)
{
    struct btf *theirs = copy_of(ours);
    struct btf_type *type = (struct btf_type *) btf__type_by_id(theirs, id);
    const char *name = btf__name_by_offset(ours, type->name_off);
    bool made = make(theirs, type, change, i);
    char *error = NULL;

    if (made && oxdp_layout_check(ours, theirs, &error) != -EPROTO) {
        fail_msg("change %d of member %u of type %u (%s): a program with it would be loaded", change, i, id, name);
    }
    if (made && hash_of_tables(ours) == hash_of_tables(theirs)) {
        fail_msg("change %d of member %u of type %u (%s): a table with it would be adopted", change, i, id, name);
    }
    assert_true(!made || strstr(error, "another layout than those of this version, first at "));
    free(error);
    btf__free(theirs);
    return made;
}

static void test_no_change_goes_unnoticed(void **state)
{
    struct btf *ours = btf__parse_elf(object, NULL);
    unsigned int n[N_CHANGES] = { 0 };
    bool used[MAX_TYPES] = { false };
    int tables = btf__find_by_name_kind(ours, "bpf_layouts", BTF_KIND_STRUCT);

    (void) state;
    assert_true(tables > 0);
    mark(ours, tables, used);
    used[tables] = false;
    for (uint32_t id = 1; id < MAX_TYPES; id++) {
        for (int change = 0; used[id] && change < N_CHANGES; change++) {
            const struct btf_type *type = btf__type_by_id(ours, id);
            uint32_t n_members = change < N_MEMBER_CHANGES ? btf_vlen(type) : 1;

            for (uint32_t i = 0; i < n_members; i++) {
                n[change] += try_change(ours, id, change, i);
            }
        }
    }
    for (int change = 0; change < N_CHANGES; change++) {
        printf("change %d: %u\n", change, n[change]);
        assert_true(n[change] > 10);
    }
    btf__free(ours);
}

static void test_no_change_is_none(void **state)
{
    struct btf *ours = btf__parse_elf(object, NULL), *theirs = copy_of(ours);

    (void) state;
    assert_int_equal(oxdp_layout_check(ours, theirs, NULL), 0);
    assert_true(hash_of_tables(ours) == hash_of_tables(theirs));
    btf__free(theirs);
    btf__free(ours);
}

/* The sentence leads to the member. */
static void test_first_difference_is_named(void **state)
{
    struct btf *ours = btf__parse_elf(object, NULL), *theirs = copy_of(ours);
    struct btf_type *type = (struct btf_type *) btf__type_by_id(theirs, btf__find_by_name(theirs, "dp_meter"));
    char *error = NULL;

    (void) state;
    assert_string_equal(btf__name_by_offset(theirs, btf_members(type)[2].name_off), "n_bands");
    btf_members(type)[2].offset += 32;
    assert_int_equal(oxdp_layout_check(ours, theirs, &error), -EPROTO);
    assert_string_equal(
        error, "its tables have another layout than those of this version, first at meters.n_bands: build it again");
    free(error);
    btf__free(theirs);
    btf__free(ours);
}

/* Where byte 'to' of a struct of ours comes from; UINT32_MAX: from nowhere. */
static uint32_t origin_of(const struct oxdp_ct_layout *layout, uint32_t to)
{
    for (uint32_t i = 0; i < layout->n; i++) {
        if (to >= layout->move[i].to && to < layout->move[i].to + layout->move[i].len) {
            return layout->move[i].from + to - layout->move[i].to;
        }
    }
    return UINT32_MAX;
}

/* Members are moved by their names. */
static void test_moves(void **state)
{
    struct btf *ours = btf__parse_elf(object, NULL), *theirs = copy_of(ours);
    struct btf_type *life = (struct btf_type *) btf__type_by_id(theirs, btf__find_by_name(theirs, "dp_ct_life"));
    struct oxdp_ct_layout layout;

    assert_int_equal(oxdp_layout_moves(ours, theirs, "dp_ct_life", &layout), 0);
    assert_int_equal(layout.size, sizeof(struct dp_ct_life));
    assert_int_equal(layout.n, 1);
    for (uint32_t i = 0; i < sizeof(struct dp_ct_life); i++) {
        assert_int_equal(origin_of(&layout, i), i);
    }
    assert_int_equal(oxdp_layout_moves(ours, theirs, "dp_ct_key", &layout), 0);
    assert_int_equal(origin_of(&layout, offsetof(struct dp_ct_key, ip4[1][1])), offsetof(struct dp_ct_key, ip4[1][1]));
    assert_int_equal(origin_of(&layout, offsetof(struct dp_ct_key, pad1)), UINT32_MAX);

    assert_string_equal(btf__name_by_offset(theirs, btf_members(life)[2].name_off), "used");
    assert_true(make(theirs, life, CHANGE_MEMBER_OFFSET, 2));
    assert_true(make(theirs, life, CHANGE_MEMBER_NAME, 3));
    assert_true(make(theirs, life, CHANGE_SIZE, 0));
    assert_int_equal(oxdp_layout_moves(ours, theirs, "dp_ct_life", &layout), 0);
    assert_int_equal(layout.size, sizeof(struct dp_ct_life) + 8);
    assert_int_equal(origin_of(&layout, 0), 0);
    assert_int_equal(origin_of(&layout, offsetof(struct dp_ct_life, used)), offsetof(struct dp_ct_life, used) + 1);
    assert_int_equal(origin_of(&layout, offsetof(struct dp_ct_life, version)), UINT32_MAX);
    assert_int_equal(oxdp_layout_moves(ours, theirs, "dp_ct_nothing", &layout), -ENOENT);
    btf__free(theirs);
    btf__free(ours);
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_change_is_none),
        cmocka_unit_test(test_no_change_goes_unnoticed),
        cmocka_unit_test(test_first_difference_is_named),
        cmocka_unit_test(test_moves),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE.bpf.o\n", argv[0]);
        return 2;
    }
    object = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
