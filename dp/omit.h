/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What a specialised program leaves out because no flow needs it.  0 everywhere: it leaves out nothing.
 *
 * In BPF these are jumps that core/tables/constants.c writes into the program before load: the verifier removes what
 * they pass.  A program that leaves out too much is still correct, but hands more frames to the engine: those of
 * protocols that it does not parse, of flows whose mask uses words that it does not build (struct dp_mask 'words'), of
 * flows with operations that it does not execute (struct dp_op 'codes').  So flows may be installed whatever program
 * runs.
 *
 * The seam provides
 *
 *     dp_omits(ctx, first, last)       whether all bits from one to the other, constants (DP_OMITS*() below), are set
 *     dp_omitted_words(ctx)            the words, DP_WORD()
 *     dp_omitted_ops(ctx)              bits of enum dp_op_code
 */
#ifndef DP_OMIT_H
#define DP_OMIT_H 1

#include "dp/capability.h"
#include "dp/key.h"

/* Parts of a program: the key groups, and more. */
#define DP_PART_OPS      (1u << DP_N_KEY_GROUPS)        /* Operations of any kind. */
#define DP_PART_CHECKSUM (1u << (DP_N_KEY_GROUPS + 1))  /* Recognizing CHECKSUM_PARTIAL. */
#define DP_PART(GROUP)   (1u << DP_KEY_GROUP_##GROUP)
#define DP_ALL_PARTS     (((1u << (DP_N_KEY_GROUPS + 2)) - 1) | DP_PART_FRAGS | DP_PART_TRACE)
#define DP_PART_TABLES   (1u << (DP_N_KEY_GROUPS + 2))  /* All lookups: the fast path is off. */
#define DP_PART_FRAGS    (1u << (DP_N_KEY_GROUPS + 3))  /* Frames in several buffers: needed where they may come. */
#define DP_PART_TRACE    (1u << (DP_N_KEY_GROUPS + 4))  /* Tracing packets, dp/trace.h: needed during a trace. */

#define DP_WORD(I) (1ull << (I))
#define DP_WORDS(FIRST, BEHIND) ((1ull << (BEHIND)) - (1ull << (FIRST)))    /* From FIRST to before BEHIND. */
#define DP_ALL_WORDS DP_WORDS(0, DP_KEY_WORDS)
_Static_assert(DP_KEY_WORDS < 64, "sets of key words have 64 bits (docs/decisions/0020-room-in-encodings.md)");
#define DP_WARM DP_WORDS(DP_HOT_WORDS, DP_FIRST_COLD)

/* Never left out: statistics and checksums read these. */
#define DP_CORE_WORDS (DP_WORD(0) | DP_WORD(1) | DP_WORD(3))

/* Whether the program was built without key groups, by its author. */
#ifndef DP_KEY_GROUPS_HERE
#define DP_KEY_GROUPS_HERE DP_CAPABILITY_ALL_KEYS
#endif
#define DP_TRIMMED (DP_KEY_GROUPS_HERE != DP_CAPABILITY_ALL_KEYS)

/* The words that only these groups fill, if it was built without all of them. */
#define DP_WORDS_WITHOUT(GROUPS, WORDS) ((DP_KEY_GROUPS_HERE) & (GROUPS) ? 0 : (WORDS))
#define DP_WORDS_LEFT_OUT                                                                                           \
    (DP_WORDS_WITHOUT(DP_PART(IP6) | DP_PART(ARP) | DP_PART(IGMP) | DP_PART(MPLS), DP_WARM)                         \
     | DP_WORDS_WITHOUT(DP_PART(IP6), DP_WORD(DP_FIRST_COLD))                                                       \
     | DP_WORDS_WITHOUT(DP_PART(ND), DP_WORDS(DP_KEY_WORD(nd_target), DP_PACKET_WORDS))                             \
     | DP_WORDS_WITHOUT(DP_PART(RECIRC) | DP_PART(MARK) | DP_PART(CT),                                              \
                        DP_WORDS(DP_KEY_WORD(dp_hash), DP_KEY_WORD(ct_state)))                                      \
     | DP_WORDS_WITHOUT(DP_PART(CT), DP_WORDS(DP_KEY_WORD(ct_state), DP_KEY_WORD(tun_id)))                          \
     | DP_WORDS_WITHOUT(DP_PART(TUNNEL), DP_WORDS(DP_KEY_WORD(tun_id), DP_KEY_WORDS)))

struct dp_omit {
    __u32 parts;                /* DP_PART_*. */
    __u64 words;                /* Of keys, DP_WORD(); not in DP_CORE_WORDS. */
    __u64 ops;                  /* Bits of enum dp_op_code. */
};

/* All bits of struct dp_omit in one numbering: the first of each member. */
#define DP_OMIT_PARTS 0
#define DP_OMIT_WORDS 32
#define DP_OMIT_OPS   96

/* Whether bits 'first' to 'last' of '*omit', all of one member, are set. */
DP_INLINE int dp_omit_has(const struct dp_omit *omit, __u32 first, __u32 last)
{
    __u64 bits = first < DP_OMIT_WORDS ? omit->parts : first < DP_OMIT_OPS ? omit->words : omit->ops;
    __u32 begin = first < DP_OMIT_WORDS ? DP_OMIT_PARTS : first < DP_OMIT_OPS ? DP_OMIT_WORDS : DP_OMIT_OPS;
    __u64 asked = ((2ull << (last - first)) - 1) << (first - begin);

    return !(asked & ~bits);
}

/* Questions to a seam: about one part, the word or words from 'first' to before 'behind', an operation. */
#define DP_OMITS(CTX, PART) dp_omits(CTX, __builtin_ctz(PART), __builtin_ctz(PART))
#define DP_OMITS_WORD(CTX, I) dp_omits(CTX, DP_OMIT_WORDS + (I), DP_OMIT_WORDS + (I))
#define DP_OMITS_WORDS(CTX, FIRST, BEHIND) dp_omits(CTX, DP_OMIT_WORDS + (FIRST), DP_OMIT_WORDS + (BEHIND) - 1)
#define DP_OMITS_WARM(CTX) DP_OMITS_WORDS(CTX, DP_HOT_WORDS, DP_FIRST_COLD)
#define DP_OMITS_COLD(CTX) DP_OMITS_WORDS(CTX, DP_FIRST_COLD, DP_KEY_WORDS)
#define DP_OMITS_OP(CTX, CODE) dp_omits(CTX, DP_OMIT_OPS + (CODE), DP_OMIT_OPS + (CODE))

#endif /* dp/omit.h */
