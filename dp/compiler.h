/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The only header that knows what is being compiled: a BPF program or native code.
 *
 * DP_INLINE marks a helper that is part of its caller.  DP_STAGE marks one stage of the datapath: inline
 * natively, a global function in BPF, which the verifier checks once whatever its callers do.  A stage therefore
 * takes at most five arguments: the context, pointers to structs (which it must test for NULL, because the
 * verifier assumes nothing about callers) and scalars; it returns a scalar.
 */
#ifndef DP_COMPILER_H
#define DP_COMPILER_H 1

#include <linux/types.h>

#ifdef __bpf__
#define DP_INLINE static inline __attribute__((always_inline))
#define DP_STAGE __attribute__((noinline, weak))
#else
#define DP_INLINE static inline __attribute__((always_inline, unused))
#define DP_STAGE static __attribute__((unused))
#endif

#define DP_LIKELY(X) __builtin_expect(!!(X), 1)
#define DP_UNLIKELY(X) __builtin_expect(!!(X), 0)
#define DP_ARRAY_SIZE(A) (sizeof(A) / sizeof((A)[0]))
#define DP_UNROLL _Pragma("GCC unroll 16")
#define DP_NO_UNROLL _Pragma("GCC unroll 1")

/* Makes the compiler forget what it knows about VAR, so that a bound that was checked is not moved away from its
 * use, where the verifier looks for it. */
#define DP_OPAQUE(VAR) __asm__ volatile("" : "+r"(VAR))

/* Loads and stores of packet bytes, which have no alignment, in memory order.  BPF's compiler would take an unaligned
 * type apart into bytes, although x86-64 loads it whole; natively the sanitizers insist on memcpy. */
#ifdef __bpf__
#define DP_RAW_ACCESS(BITS)                                                                 \
    DP_INLINE __u##BITS dp_load##BITS(const void *p) { return *(const __u##BITS *) p; }     \
    DP_INLINE void dp_store##BITS(void *p, __u##BITS v) { *(__u##BITS *) p = v; }
#else
#define DP_RAW_ACCESS(BITS)                                                                 \
    DP_INLINE __u##BITS dp_load##BITS(const void *p)                                        \
    {                                                                                       \
        __u##BITS v;                                                                        \
                                                                                            \
        __builtin_memcpy(&v, p, sizeof v);                                                  \
        return v;                                                                           \
    }                                                                                       \
    DP_INLINE void dp_store##BITS(void *p, __u##BITS v) { __builtin_memcpy(p, &v, sizeof v); }
#endif
DP_RAW_ACCESS(8)
DP_RAW_ACCESS(16)
DP_RAW_ACCESS(32)
DP_RAW_ACCESS(64)

/* Reads or writes shared memory that the other side changes at the same time, exactly once and whole.  To
 * ThreadSanitizer volatile says nothing: there they are the loads and stores of x86. */
#ifdef DP_THREAD_SANITIZER
#define DP_READ_ONCE(X) __atomic_load_n(&(X), __ATOMIC_ACQUIRE)
#define DP_WRITE_ONCE(X, V) __atomic_store_n(&(X), (V), __ATOMIC_RELEASE)
#else
#define DP_READ_ONCE(X) (*(const volatile __typeof__(X) *) &(X))
#define DP_WRITE_ONCE(X, V) (*(volatile __typeof__(X) *) &(X) = (V))
#endif

/* DP_ORDER(): other CPUs see what was read and written before it before what is written behind it, and what is read
 * behind it is not older than what was read before it.  x86-64 keeps that order by itself; arm64 does not.
 * docs/decisions/0019-memory-model.md has all places.
 *
 * A program that is not said to be for x86 is ordered for all.  BPF's one instruction for that on all
 * kernels is an atomic one that returns something: the kernel's are full barriers. */
#if defined __TARGET_ARCH_x86 || defined __x86_64__
#define DP_UNORDERED_CPU 0
#else
#define DP_UNORDERED_CPU 1
#endif

#if defined DP_THREAD_SANITIZER
#define DP_ORDER() ((void) 0)           /* DP_READ_ONCE() and DP_WRITE_ONCE() are in order. */
#elif defined __bpf__ && !DP_UNORDERED_CPU
#define DP_ORDER() ((void) 0)
#elif defined __bpf__
#define DP_ORDER() dp_order()
DP_INLINE void dp_order(void)
{
    __u64 room = 0, value = 0;

    __asm__ volatile("%0 = xchg_64(%1 + 0, %0)" : "+r"(value) : "r"(&room) : "memory");
}
#else
#define DP_ORDER() __atomic_thread_fence(__ATOMIC_ACQ_REL)
#endif

/* Reads X before all that follows. */
#define DP_READ_FIRST(X)                        \
    ({                                          \
        __typeof__(X) dp_read = DP_READ_ONCE(X);\
        DP_ORDER();                             \
        dp_read;                                \
    })

/* Writes V to '*P' after all that was written and read before, and returns what was there. */
#define DP_EXCHANGE(P, V) __atomic_exchange_n((P), (V), __ATOMIC_SEQ_CST)

#endif /* dp/compiler.h */
