/* SPDX-License-Identifier: Apache-2.0 */
/* Each instruction becomes a few.  A is r0, X is r9, M[] is on the stack; r1 and r2 are free.  A load from behind the
 * packet's end ends the filter with "no match", as it does in the kernel's. */
#include "core/capture/filter.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "bpf/capture.h"
#include "core/error.h"

enum { A = BPF_REG_0, X = BPF_REG_9, DATA = BPF_REG_6, CAPTURED = BPF_REG_7, LENGTH = BPF_REG_8 };

#define TO_END INT32_MAX        /* As a target: the instruction behind the last. */

struct output {
    struct bpf_insn *insns;
    int32_t *targets;           /* Of each: the instruction of the filter that it jumps to, TO_END, or -1. */
    size_t n, room;
};

static void emit(struct output *out, struct bpf_insn insn, int32_t target)
{
    if (out->n < out->room) {
        out->insns[out->n] = insn;
        out->targets[out->n] = target;
    }
    out->n++;
}

static void alu(struct output *out, int op, int dst, int src, int32_t imm)
{
    emit(out, (struct bpf_insn) { .code = BPF_ALU | op, .dst_reg = dst, .src_reg = src, .imm = imm }, -1);
}

static void alu_k(struct output *out, int op, int dst, int32_t imm)
{
    alu(out, op | BPF_K, dst, 0, imm);
}

static void go_to(struct output *out, int32_t target)
{
    emit(out, (struct bpf_insn) { .code = BPF_JMP | BPF_JA }, target);
}

static void end(struct output *out, bool match)
{
    alu_k(out, BPF_MOV, A, match);
    go_to(out, TO_END);
}

/* Ends the filter unless the condition holds. */
static void require(struct output *out, int class, int op, int dst, int src, int32_t imm)
{
    emit(out, (struct bpf_insn) { .code = class | op, .dst_reg = dst, .src_reg = src, .off = 2, .imm = imm }, -1);
    end(out, false);
}

static void load(struct output *out, int size, int dst, int src, int16_t offset)
{
    emit(out, (struct bpf_insn) { .code = BPF_LDX | BPF_MEM | size, .dst_reg = dst, .src_reg = src, .off = offset },
         -1);
    if (size != BPF_B) {
        emit(out, (struct bpf_insn) { .code = BPF_ALU | BPF_END | BPF_TO_BE, .dst_reg = dst,
                                      .imm = size == BPF_H ? 16 : 32 }, -1);
    }
}

static uint32_t bytes_of(int size)
{
    return size == BPF_B ? 1 : size == BPF_H ? 2 : 4;
}

/* Loads from offset 'k'.  Returns false if no filter can look there. */
static bool load_at(struct output *out, int size, int dst, uint32_t k)
{
    if (k > BPF_CAPTURE_HEAD - bytes_of(size)) {
        return false;
    }
    require(out, BPF_JMP, BPF_JGE | BPF_K, CAPTURED, 0, k + bytes_of(size));
    load(out, size, dst, DATA, k);
    return true;
}

/* From offset X + 'k'. */
static void load_behind_x(struct output *out, int size, uint32_t k)
{
    alu(out, BPF_MOV | BPF_X, BPF_REG_1, X, 0);
    alu_k(out, BPF_ADD, BPF_REG_1, k);
    require(out, BPF_JMP, BPF_JLE | BPF_K, BPF_REG_1, 0, BPF_CAPTURE_HEAD - bytes_of(size));
    alu(out, BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_1, 0);
    alu_k(out, BPF_ADD, BPF_REG_2, bytes_of(size));
    require(out, BPF_JMP, BPF_JLE | BPF_X, BPF_REG_2, CAPTURED, 0);
    emit(out, (struct bpf_insn) { .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2, .src_reg = DATA }, -1);
    emit(out, (struct bpf_insn) { .code = BPF_ALU64 | BPF_ADD | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_1 },
         -1);
    load(out, size, A, BPF_REG_2, 0);
}

/* Where M[k] is, from the end of the stack. */
static int16_t place_of(uint32_t k)
{
    return -4 * (int) (k + 1);
}

static bool translate_load(struct output *out, const struct sock_filter *f)
{
    int dst = BPF_CLASS(f->code) == BPF_LD ? A : X;

    switch (BPF_MODE(f->code)) {
    case BPF_IMM:
        alu_k(out, BPF_MOV, dst, f->k);
        return true;
    case BPF_LEN:
        alu(out, BPF_MOV | BPF_X, dst, LENGTH, 0);
        return true;
    case BPF_MEM:
        if (f->k >= BPF_MEMWORDS) {
            return false;
        }
        emit(out, (struct bpf_insn) { .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = dst, .src_reg = BPF_REG_10,
                                      .off = place_of(f->k) }, -1);
        return true;
    case BPF_ABS:
        return dst == A && load_at(out, BPF_SIZE(f->code), A, f->k);
    case BPF_IND:
        load_behind_x(out, BPF_SIZE(f->code), f->k);
        return dst == A;
    case BPF_MSH:
        if (dst != X || !load_at(out, BPF_B, X, f->k)) {
            return false;
        }
        alu_k(out, BPF_AND, X, 15);
        alu_k(out, BPF_LSH, X, 2);
        return true;
    }
    return false;
}

static bool translate_alu(struct output *out, const struct sock_filter *f)
{
    int op = BPF_OP(f->code);
    bool by_x = BPF_SRC(f->code) == BPF_X;

    if (op > BPF_XOR) {
        return false;
    }
    if (op == BPF_NEG) {
        alu_k(out, BPF_NEG, A, 0);
        return true;
    }
    if (by_x) {
        if (op == BPF_DIV || op == BPF_MOD) {
            require(out, BPF_JMP32, BPF_JNE | BPF_K, X, 0, 0);
        }
        alu(out, op | BPF_X, A, X, 0);
        return true;
    }
    if (((op == BPF_DIV || op == BPF_MOD) && !f->k) || ((op == BPF_LSH || op == BPF_RSH) && f->k > 31)) {
        return false;
    }
    alu_k(out, op, A, f->k);
    return true;
}

/* Instruction 'i' of 'n'. */
static bool translate_jump(struct output *out, const struct sock_filter *f, size_t i, size_t n)
{
    int op = BPF_OP(f->code);
    bool by_x = BPF_SRC(f->code) == BPF_X;

    if (op == BPF_JA) {
        go_to(out, i + 1 + f->k);
        return f->k < n - i - 1;
    }
    if ((op != BPF_JEQ && op != BPF_JGT && op != BPF_JGE && op != BPF_JSET) || i + 1 + f->jt >= n
        || i + 1 + f->jf >= n) {
        return false;
    }
    if (f->jt != f->jf) {
        emit(out, (struct bpf_insn) { .code = BPF_JMP32 | op | (by_x ? BPF_X : BPF_K), .dst_reg = A,
                                      .src_reg = by_x ? X : 0, .imm = by_x ? 0 : f->k }, i + 1 + f->jt);
    }
    if (f->jf || f->jt == f->jf) {
        go_to(out, i + 1 + f->jf);
    }
    return true;
}

static bool translate(struct output *out, const struct sock_filter *f, size_t i, size_t n)
{
    switch (BPF_CLASS(f->code)) {
    case BPF_LD:
    case BPF_LDX:
        return translate_load(out, f);
    case BPF_ST:
    case BPF_STX:
        emit(out, (struct bpf_insn) { .code = BPF_STX | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10,
                                      .src_reg = BPF_CLASS(f->code) == BPF_ST ? A : X, .off = place_of(f->k) }, -1);
        return f->k < BPF_MEMWORDS;
    case BPF_ALU:
        return translate_alu(out, f);
    case BPF_JMP:
        return translate_jump(out, f, i, n);
    case BPF_RET:
        if (BPF_RVAL(f->code) == BPF_A) {
            emit(out, (struct bpf_insn) { .code = BPF_JMP32 | BPF_JEQ | BPF_K, .dst_reg = A }, TO_END);
            end(out, true);
        } else {
            end(out, f->k);
        }
        return true;
    default:                            /* BPF_MISC. */
        if (BPF_MISCOP(f->code) == BPF_TAX) {
            alu(out, BPF_MOV | BPF_X, X, A, 0);
        } else {
            alu(out, BPF_MOV | BPF_X, A, X, 0);
        }
        return true;
    }
}

int oxdp_capture_filter(const struct sock_filter *filter, size_t n, struct bpf_insn *ret_insns, size_t room,
                        char **ret_error)
{
    struct output out = { ret_insns, calloc(room, sizeof(int32_t)), 0, room };
    size_t *starts = calloc(n ? n : 1, sizeof *starts);
    int err = 0;

    if (!out.targets || !starts) {
        err = oxdp_fail(-ENOMEM, ret_error, "not enough memory for a filter");
    } else if (!n || BPF_CLASS(filter[n - 1].code) != BPF_RET) {
        err = oxdp_fail(-EINVAL, ret_error, "the filter has no end");
    } else {
        alu_k(&out, BPF_MOV, A, 0);
        for (size_t i = 0; !err && i < n; i++) {
            starts[i] = out.n;
            if (!translate(&out, &filter[i], i, n)) {
                err = oxdp_fail(-EINVAL, ret_error,
                                "instruction %zu of the filter (code %#x, k %u) cannot be used: filters look at the "
                                "first %d bytes of packets only",
                                i, filter[i].code, filter[i].k, BPF_CAPTURE_HEAD);
            }
        }
    }
    if (!err && out.n > room) {
        err = oxdp_fail(-E2BIG, ret_error, "the filter is too long: it takes %zu instructions, of %zu at most", out.n,
                        room);
    }
    for (size_t i = 0; !err && i < out.n; i++) {
        if (out.targets[i] >= 0) {
            ret_insns[i].off = (out.targets[i] == TO_END ? out.n : starts[out.targets[i]]) - i - 1;
        }
    }
    free(out.targets);
    free(starts);
    return err ? err : (int) out.n;
}
