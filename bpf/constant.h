/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Constants that are known when a program is loaded: sizes, addresses of tables, what it leaves out.  They are
 * immediate operands of instructions and cost nothing.  Read-only data would cost a load at each use, also where the
 * verifier removes the code behind it.  The compiler sees marks, which core/tables/constants.h replaces in the object:
 *
 *   mark                    in                              becomes
 *   BPF_MARK_OMITS()        "if 0 == mark goto"             "if 0 == 0 goto", where it is left out
 *   BPF_MARK_NUMBER + n     any immediate operand           the number
 *   BPF_MARK_SET + s        the load of a 64-bit constant   the bits of the set
 *   BPF_MARK_TABLE + t      the load of a 64-bit constant   the address of the table, a map's only value
 *   BPF_MARK_KFUNC + f      a call, an immediate operand    the number in the kernel's BTF of a function, 0: none
 *
 * The verifier sees the values: it checks indexes against the sizes, and removes what is left out with the jumps.  It
 * refuses a program whose marks were not replaced. */
#ifndef BPF_CONSTANT_H
#define BPF_CONSTANT_H 1

#include "bpf/maps.h"
#include "dp/ct_table.h"
#include "dp/path_table.h"
#include "dp/table.h"

/* X(name, type of element) of the tables of dp/table.h, and the others that programs find so. */
#define BPF_TABLES(X)               \
    DP_TABLES(X)                    \
    X(runs, struct bpf_run_room)    \
    X(ports, struct bpf_port)       \
    X(limits, struct bpf_limit)     \
    X(counters, struct bpf_counters) \
    X(tracing, struct bpf_tracing)  \
    X(traces, struct bpf_trace_room)

enum bpf_table {
#define X(NAME, TYPE) BPF_TABLE_##NAME,
    BPF_TABLES(X)
#undef X
    BPF_N_TABLES
};

/* Behind these, the tables of connections (dp/ct_table.h) and of their paths (dp/path_table.h).  A datapath may have
 * none: its programs leave CT out. */
enum bpf_ct_table {
    BPF_TABLE_BEFORE_ct = BPF_N_TABLES - 1,
#define X(NAME, TYPE) BPF_TABLE_ct_##NAME,
    DP_CT_TABLES(X)
#undef X
#define X(NAME, TYPE) BPF_TABLE_##NAME,
    DP_PATH_TABLES(X)
#undef X
    BPF_N_ALL_TABLES
};

enum bpf_number {
#define X(NAME, TYPE) BPF_LAST_##NAME,          /* Last index, which is less than 2^31. */
    BPF_TABLES(X)
#undef X
#define X(NAME, TYPE) BPF_LAST_ct_##NAME,
    DP_CT_TABLES(X)
#undef X
#define X(NAME, TYPE) BPF_LAST_##NAME,
    DP_PATH_TABLES(X)
#undef X
    BPF_NUMBER_SHARED_SHARDS,                   /* Shards of statistics if CPUs share them, else 0. */
    BPF_N_NUMBERS
};

enum bpf_set {                                  /* Members of struct dp_omit. */
    BPF_SET_OMITTED_WORDS,
    BPF_SET_OMITTED_OPS,
    BPF_N_SETS
};

/* Kernel functions that programs call or ask for.  Calls stand behind a condition that is constant; where the kernel
 * has no such function, "r0 = 0" stands there. */
#define BPF_KFUNCS(X)           \
    X(bpf_cast_to_kern_ctx)     \
    X(bpf_dynptr_from_skb)

enum bpf_kfunc {
#define X(NAME) BPF_KFUNC_##NAME,
    BPF_KFUNCS(X)
#undef X
    BPF_N_KFUNCS
};

#define BPF_MARK_OMITS(FIRST, LAST) (0x6f780000 | (FIRST) << 8 | (LAST))
#define BPF_MARK_NUMBER 0x6f790000
#define BPF_MARK_TABLE 0x6f7a0000
#define BPF_MARK_SET 0x6f7b0000
#define BPF_MARK_KFUNC 0x6f7c0000
#define BPF_MARK_KIND(MARK) ((MARK) & 0xffff0000)

#endif /* bpf/constant.h */
