/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/layout.h"

#include <bpf/btf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/ct/ct.h"
#include "core/error.h"

#define MAX_DEPTH 16            /* Types in types. */

/* Two types to compare, and the path to them from a table. */
struct pair {
    const struct btf *ours, *theirs;
    char path[256];
};

static bool same(struct pair *pair, uint32_t our_id, uint32_t their_id, int depth);
static uint64_t hash_type(const struct btf *btf, uint32_t id, uint64_t hash, int depth);

int oxdp_layout_check(const struct btf *ours, const struct btf *theirs, char **ret_error)
{
    struct pair pair = { .ours = ours, .theirs = theirs };
    int our_id = btf__find_by_name_kind(ours, "bpf_layouts", BTF_KIND_STRUCT);
    int their_id = theirs ? btf__find_by_name_kind(theirs, "bpf_layouts", BTF_KIND_STRUCT) : -ENOENT;

    if (our_id < 0 || their_id < 0) {
        return oxdp_fail(-ENOENT, ret_error,
                         "its BTF does not say how its tables are laid out: build it again, with this version's "
                         "bpf/capability.h and debug information (clang -g)");
    }
    if (!same(&pair, our_id, their_id, 0)) {
        return oxdp_fail(-EPROTO, ret_error, "its tables have another layout than those of this version, first at %s: "
                         "build it again", pair.path[0] ? pair.path : "their number");
    }
    return 0;
}

/* The type behind typedefs and qualifiers. */
static const struct btf_type *resolve(const struct btf *btf, uint32_t id)
{
    const struct btf_type *type = btf__type_by_id(btf, id);

    while (type && (btf_is_mod(type) || btf_is_typedef(type))) {
        type = btf__type_by_id(btf, type->type);
    }
    return type;
}

static const char *name_of(const struct btf *btf, uint32_t offset)
{
    const char *name = btf__name_by_offset(btf, offset);

    return name ? name : "";
}

/* Unnamed members are not in the path. */
static bool same_member(struct pair *pair, const struct btf_type *ours, const struct btf_type *theirs, uint32_t i,
                        int depth)
{
    const struct btf_member *our = &btf_members(ours)[i], *their = &btf_members(theirs)[i];
    const char *name = name_of(pair->ours, our->name_off);
    size_t len = strlen(pair->path);

    snprintf(pair->path + len, sizeof pair->path - len, "%s%s", len && name[0] ? "." : "", name);
    if (strcmp(name, name_of(pair->theirs, their->name_off))
        || btf_member_bit_offset(ours, i) != btf_member_bit_offset(theirs, i)
        || btf_member_bitfield_size(ours, i) != btf_member_bitfield_size(theirs, i)
        || !same(pair, our->type, their->type, depth + 1)) {
        return false;
    }
    pair->path[len] = '\0';
    return true;
}

/* If not, 'path' stays where they differ. */
static bool same(struct pair *pair, uint32_t our_id, uint32_t their_id, int depth)
{
    const struct btf_type *ours = resolve(pair->ours, our_id);
    const struct btf_type *theirs = resolve(pair->theirs, their_id);

    if (!ours || !theirs || depth > MAX_DEPTH || btf_kind(ours) != btf_kind(theirs)
        || btf__resolve_size(pair->ours, our_id) != btf__resolve_size(pair->theirs, their_id)) {
        return false;
    }
    if (btf_is_array(ours)) {
        const struct btf_array *our = btf_array(ours), *their = btf_array(theirs);

        return our->nelems == their->nelems && same(pair, our->type, their->type, depth + 1);
    }
    if (btf_is_int(ours)) {
        return btf_int_encoding(ours) == btf_int_encoding(theirs) && btf_int_bits(ours) == btf_int_bits(theirs);
    }
    if (btf_is_composite(ours)) {
        for (uint32_t i = 0; i < btf_vlen(ours) && i < btf_vlen(theirs); i++) {
            if (!same_member(pair, ours, theirs, i, depth)) {
                return false;
            }
        }
        return btf_vlen(ours) == btf_vlen(theirs);
    }
    return true;                /* Pointers, which mean nothing to the other side, and enums, which are numbers. */
}

/* FNV-1a. */
static uint64_t hash_number(uint64_t n, uint64_t hash)
{
    for (int i = 0; i < 8; i++) {
        hash = (hash ^ (n >> 8 * i & 0xff)) * UINT64_C(0x100000001b3);
    }
    return hash;
}

uint64_t oxdp_layout_hash_text(const char *text, uint64_t hash)
{
    for (; *text; text++) {
        hash = hash_number((unsigned char) *text, hash);
    }
    return hash_number(0, hash);
}

uint64_t oxdp_layout_hash(const struct btf *btf, const char *name, uint64_t hash)
{
    int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);

    hash = hash ? hash : UINT64_C(0xcbf29ce484222325);
    return id < 0 ? hash_number(-id, hash) : hash_type(btf, id, hash, 0);
}

static uint64_t hash_type(const struct btf *btf, uint32_t id, uint64_t hash, int depth)
{
    const struct btf_type *type = resolve(btf, id);

    if (!type || depth > MAX_DEPTH) {
        return hash;
    }
    hash = hash_number(btf_kind(type), hash);
    hash = hash_number(btf__resolve_size(btf, id), hash);
    if (btf_is_array(type)) {
        hash = hash_type(btf, btf_array(type)->type, hash_number(btf_array(type)->nelems, hash), depth + 1);
    } else if (btf_is_int(type)) {
        hash = hash_number(btf_int_encoding(type), hash);
    } else if (btf_is_composite(type)) {
        for (uint32_t i = 0; i < btf_vlen(type); i++) {
            hash = oxdp_layout_hash_text(name_of(btf, btf_members(type)[i].name_off), hash);
            hash = hash_number(btf_member_bit_offset(type, i), hash);
            hash = hash_number(btf_member_bitfield_size(type, i), hash);
            hash = hash_type(btf, btf_members(type)[i].type, hash, depth + 1);
        }
    }
    return hash;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* What oxdp_layout_moves() has come to. */
struct walk {
    const struct btf *ours, *theirs;
    struct oxdp_ct_layout *layout;
    bool too_many;
};

/* Adds 'len' bytes; to those before, if they follow them on both sides. */
static void add_move(struct walk *walk, uint32_t to, uint32_t from, uint32_t len)
{
    struct oxdp_ct_layout *layout = walk->layout;
    uint32_t last = layout->n - 1;

    if (layout->n && layout->move[last].to + layout->move[last].len == to
        && layout->move[last].from + layout->move[last].len == from) {
        layout->move[last].len += len;
    } else if (layout->n < OXDP_CT_MOST_MOVES) {
        layout->move[layout->n].to = to;
        layout->move[layout->n].from = from;
        layout->move[layout->n++].len = len;
    } else {
        walk->too_many = true;
    }
}

/* The member of 'type' with this name, NULL if there is none. */
static const struct btf_member *find_member(const struct btf *btf, const struct btf_type *type, const char *name)
{
    for (uint32_t i = 0; i < btf_vlen(type); i++) {
        if (!strcmp(name_of(btf, btf_members(type)[i].name_off), name)) {
            return &btf_members(type)[i];
        }
    }
    return NULL;
}

static void add_moves(struct walk *walk, uint32_t our_id, uint32_t their_id, uint32_t to, uint32_t from, int depth);

static void add_members(struct walk *walk, const struct btf_type *ours, const struct btf_type *theirs, uint32_t to,
                        uint32_t from, int depth)
{
    for (uint32_t i = 0; i < btf_vlen(ours); i++) {
        const struct btf_member *our = &btf_members(ours)[i];
        const char *name = name_of(walk->ours, our->name_off);
        const struct btf_member *their = find_member(walk->theirs, theirs, name);

        if (their && strncmp(name, "pad", strlen("pad"))) {
            add_moves(walk, our->type, their->type, to + btf_member_bit_offset(ours, i) / 8,
                      from + btf_member_bit_offset(theirs, their - btf_members(theirs)) / 8, depth + 1);
        }
    }
}

static void add_moves(struct walk *walk, uint32_t our_id, uint32_t their_id, uint32_t to, uint32_t from, int depth)
{
    const struct btf_type *ours = resolve(walk->ours, our_id), *theirs = resolve(walk->theirs, their_id);

    if (!ours || !theirs || depth > MAX_DEPTH || btf_kind(ours) != btf_kind(theirs)) {
        return;
    }
    if (btf_is_array(ours)) {
        const struct btf_array *our = btf_array(ours), *their = btf_array(theirs);
        uint32_t our_size = btf__resolve_size(walk->ours, our->type);
        uint32_t their_size = btf__resolve_size(walk->theirs, their->type);

        for (uint32_t i = 0; i < our->nelems && i < their->nelems; i++) {
            add_moves(walk, our->type, their->type, to + i * our_size, from + i * their_size, depth + 1);
        }
    } else if (btf_is_composite(ours)) {
        add_members(walk, ours, theirs, to, from, depth);
    } else {                    /* Bytes with low values come first. */
        add_move(walk, to, from, least(btf__resolve_size(walk->ours, our_id),
                                       btf__resolve_size(walk->theirs, their_id)));
    }
}

int oxdp_layout_moves(const struct btf *ours, const struct btf *theirs, const char *name, struct oxdp_ct_layout *layout)
{
    struct walk walk = { .ours = ours, .theirs = theirs, .layout = layout };
    int our_id = btf__find_by_name_kind(ours, name, BTF_KIND_STRUCT);
    int their_id = btf__find_by_name_kind(theirs, name, BTF_KIND_STRUCT);

    if (our_id < 0 || their_id < 0) {
        return -ENOENT;
    }
    layout->size = btf__resolve_size(theirs, their_id);
    layout->n = 0;
    add_moves(&walk, our_id, their_id, 0, 0, 0);
    return walk.too_many ? -E2BIG : 0;
}
