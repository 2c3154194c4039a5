/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The tables of dp/table.h as BPF programs have them, and what a program leaves out: constants of bpf/constant.h.
 * core/ makes the tables, and writes them through mmap. */
#ifndef BPF_TABLES_H
#define BPF_TABLES_H 1

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bpf/capability.h"
#include "bpf/constant.h"
#include "dp/omit.h"

/* The value of a number of enum bpf_number. */
#define NUMBER(NUMBER)                                                              \
    ({                                                                              \
        __u32 number_;                                                              \
                                                                                    \
        asm("%0 = %1" : "=w"(number_) : "i"(BPF_MARK_NUMBER + BPF_##NUMBER));       \
        number_;                                                                    \
    })

/* The value of a set of enum bpf_set. */
#define SET(SET)                                                                    \
    ({                                                                              \
        __u64 set_;                                                                 \
                                                                                    \
        asm("%0 = %1 ll" : "=r"(set_) : "i"(BPF_MARK_SET + BPF_SET_##SET));         \
        set_;                                                                       \
    })

/* Whether the kernel has a function of enum bpf_kfunc. */
#define HAS_KFUNC(NAME)                                                             \
    ({                                                                              \
        __u32 kfunc_;                                                               \
                                                                                    \
        asm("%0 = %1" : "=w"(kfunc_) : "i"(BPF_MARK_KFUNC + BPF_KFUNC_##NAME));     \
        kfunc_ != 0;                                                                \
    })

/* Calls a kernel function of enum bpf_kfunc with one argument.  An instruction that names it by a symbol would have
 * libbpf look through the types of all modules where the kernel lacks it, which takes CAP_SYS_ADMIN.  Bytes of struct
 * bpf_insn. */
#define KFUNC(NAME, R0, R1)                                                         \
    asm(".byte %2, %3, 0, 0; .long %4"                                              \
        : "=r"(R0), "+r"(R1)                                                        \
        : "i"(BPF_JMP | BPF_CALL), "i"(BPF_PSEUDO_KFUNC_CALL << 4), "i"(BPF_MARK_KFUNC + BPF_KFUNC_##NAME)      \
        : "r2", "r3", "r4", "r5")

/* What the program was built without. */
#define PARTS_LEFT_OUT ((DP_CAPABILITY_ALL_KEYS & ~(DP_KEY_GROUPS_HERE)) | ((DP_OPS_HERE) ? 0 : DP_PART_OPS))

DP_INLINE int dp_omits(struct dp_ctx *ctx, const __u32 first, const __u32 last)
{
    const struct dp_omit built = { PARTS_LEFT_OUT, DP_WORDS_LEFT_OUT, ~(__u64) (DP_OPS_HERE) };

    if (dp_omit_has(&built, first, last)) {
        return 1;
    }
    asm goto("if %0 == %1 goto %l[omitted]" : : "r"(0ull), "i"(BPF_MARK_OMITS(first, last)) : : omitted);
    return 0;

omitted:
    return 1;
}

DP_INLINE __u64 dp_omitted_words(struct dp_ctx *ctx) { return SET(OMITTED_WORDS) | DP_WORDS_LEFT_OUT; }
DP_INLINE __u64 dp_omitted_ops(struct dp_ctx *ctx) { return SET(OMITTED_OPS) | ~(__u64) (DP_OPS_HERE); }

DP_INLINE __u32 dp_cache_last(struct dp_ctx *ctx) { return NUMBER(LAST_cache); }
DP_INLINE __u32 dp_n_flows(struct dp_ctx *ctx) { return NUMBER(LAST_flows) + 1; }
DP_INLINE __u32 dp_shared_shards(struct dp_ctx *ctx) { return NUMBER(NUMBER_SHARED_SHARDS); }

/* Element 'i', NULL if there is none. */
#define TABLE(NAME, TYPE)                                                                                   \
    DP_INLINE TYPE *dp_##NAME##_at(struct dp_ctx *ctx, __u32 i)                                             \
    {                                                                                                       \
        __u64 index = i;                                                                                    \
        TYPE *table;                                                                                        \
                                                                                                            \
        if (!__builtin_constant_p(i) || i) {                                                                \
            DP_OPAQUE(index);                                                                               \
            asm goto("if %0 > %1 goto %l[none]" : : "r"(index), "i"(BPF_MARK_NUMBER + BPF_LAST_##NAME)      \
                     : : none);                                                                             \
            DP_OPAQUE(index);                                                                               \
        }                                                                                                   \
        asm("%0 = %1 ll" : "=r"(table) : "i"(BPF_MARK_TABLE + BPF_TABLE_##NAME));                           \
        table += index;                                                                                     \
        DP_OPAQUE(table);                                                                                   \
        __builtin_assume(table);                                                                            \
        return table;                                                                                       \
                                                                                                            \
    none:                                                                                                   \
        return 0;                                                                                           \
    }
BPF_TABLES(TABLE)
#define CT_TABLE(NAME, TYPE) TABLE(ct_##NAME, TYPE)
DP_CT_TABLES(CT_TABLE)
#undef CT_TABLE
DP_PATH_TABLES(TABLE)
#undef TABLE

/* dp/trace.h. */
DP_INLINE int dp_is_traced(struct dp_ctx *ctx, const __u32 *traced)
{
    return !DP_OMITS(ctx, DP_PART_TRACE) && DP_UNLIKELY(*traced);
}

DP_INLINE struct dp_way *dp_way_of(struct dp_ctx *ctx)
{
    struct bpf_trace_room *room = dp_traces_at(ctx, bpf_get_smp_processor_id());

    return room ? &room->out.way : 0;
}

/* The number of this CPU as a holder of the lock of a bucket of connections. */
DP_INLINE __u32 dp_ct_owner(struct dp_ctx *ctx) { return bpf_get_smp_processor_id() + 1; }

#endif /* bpf/tables.h */
