/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a program and this library have the same layout of the shared tables. */
#ifndef OXDP_LAYOUT_H
#define OXDP_LAYOUT_H 1

#include <stdint.h>

struct btf;
struct oxdp_ct_layout;

/* Compares the types of all tables (struct bpf_layouts of bpf/capability.h) in 'theirs', the BTF of an object, with
 * those in 'ours', member by member: names, offsets, sizes, kinds.  0; -ENOENT if 'theirs' (which may be NULL) has no
 * such types; or -EPROTO if one differs.  Then '*ret_error' has the end of a sentence, which names the first
 * difference. */
int oxdp_layout_check(const struct btf *ours, const struct btf *theirs, char **ret_error);

/* A hash of the members, offsets and sizes of the struct 'name' in 'btf'; and of a text.  'hash' is the result for what
 * comes before, or 0. */
uint64_t oxdp_layout_hash(const struct btf *btf, const char *name, uint64_t hash);
uint64_t oxdp_layout_hash_text(const char *text, uint64_t hash);

/* How elements of struct 'name' as 'theirs' has it become elements of 'ours': members of the same path and kind, whose
 * names do not begin with "pad".  Integers may be wider or narrower, arrays longer or shorter.  0; -ENOENT if one of
 * the two has no such struct; -E2BIG if they are too different. */
int oxdp_layout_moves(const struct btf *ours, const struct btf *theirs, const char *name, struct oxdp_ct_layout *);

#endif /* core/programs/layout.h */
