/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a program has the shared tables laid out as this library has. */
#ifndef OXDP_LAYOUT_H
#define OXDP_LAYOUT_H 1

#include <stdint.h>

struct btf;

/* Compares the types of all tables (struct bpf_layouts of bpf/capability.h) in 'theirs', the BTF of an object, with those in
 * 'ours', member by member: names, offsets, sizes, kinds.  0; -ENOENT if 'theirs' (which may be NULL) has no such types; or
 * -EPROTO if one differs.  Then the rest of a sentence, which names the first that does, is in '*ret_error'. */
int oxdp_layout_check(const struct btf *ours, const struct btf *theirs, char **ret_error);

/* A number that is another one if the struct 'name' in 'btf' has other members, offsets or sizes; 'hash' is that of what
 * comes before, 0 for nothing.  The same for a text. */
uint64_t oxdp_layout_hash(const struct btf *btf, const char *name, uint64_t hash);
uint64_t oxdp_layout_hash_text(const char *text, uint64_t hash);

#endif /* core/programs/layout.h */
