/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tables/constants.h"

#include <bpf/btf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

static int put_into_sections(const struct oxdp_constants *, Elf *elf, char *image, size_t size);
static void put(const struct oxdp_constants *, struct bpf_insn *insns, size_t n);
static void put_immediate(const struct oxdp_constants *, struct bpf_insn *);
static void put_call(const struct oxdp_constants *, struct bpf_insn *);
static void put_long(const struct oxdp_constants *, struct bpf_insn insns[2]);

void oxdp_constants_set_ct(struct oxdp_constants *c, const struct dp_ct_tables *tables, const int fd[],
                           const struct dp_path_tables *paths, const int path_fd[])
{
    int i = 0;

#define X(NAME, TYPE)                                       \
    c->number[BPF_LAST_ct_##NAME] = tables->n_##NAME - 1;   \
    c->table_fd[BPF_TABLE_ct_##NAME] = fd[i++];
    DP_CT_TABLES(X)
#undef X
    i = 0;
#define X(NAME, TYPE)                                   \
    c->number[BPF_LAST_##NAME] = paths->n_##NAME - 1;   \
    c->table_fd[BPF_TABLE_##NAME] = path_fd[i++];
    DP_PATH_TABLES(X)
#undef X
    c->omit.ops &= ~(UINT64_C(1) << DP_OP_CT);
}

void oxdp_constants_omit_ct(struct oxdp_constants *c)
{
    for (int i = BPF_N_TABLES; i < BPF_N_ALL_TABLES; i++) {
        c->table_fd[i] = c->table_fd[BPF_TABLE_cache];
    }
#define X(NAME, TYPE) c->number[BPF_LAST_ct_##NAME] = 0;
    DP_CT_TABLES(X)
#undef X
#define X(NAME, TYPE) c->number[BPF_LAST_##NAME] = 0;
    DP_PATH_TABLES(X)
#undef X
    c->omit.ops |= UINT64_C(1) << DP_OP_CT;
}

void oxdp_constants_find_kfuncs(struct oxdp_constants *c)
{
    static const char *const names[] = {
#define X(NAME) #NAME,
        BPF_KFUNCS(X)
#undef X
    };
    struct btf *kernel = btf__load_vmlinux_btf();

    for (int i = 0; i < BPF_N_KFUNCS; i++) {
        int id = kernel ? btf__find_by_name_kind(kernel, names[i], BTF_KIND_FUNC) : 0;

        c->kfunc[i] = id > 0 ? id : 0;
    }
    btf__free(kernel);
}

void *oxdp_constants_put(const struct oxdp_constants *c, const void *image, size_t size)
{
    char *copy = malloc(size);
    Elf *elf;
    int err;

    if (!copy) {
        return NULL;
    }
    memcpy(copy, image, size);
    elf_version(EV_CURRENT);
    elf = elf_memory(copy, size);
    err = elf ? put_into_sections(c, elf, copy, size) : -ENOEXEC;
    elf_end(elf);
    if (err) {
        free(copy);
        errno = -err;
        return NULL;
    }
    return copy;
}

static int put_into_sections(const struct oxdp_constants *c, Elf *elf, char *image, size_t size)
{
    GElf_Ehdr object;
    GElf_Shdr header;

    if (!gelf_getehdr(elf, &object) || object.e_machine != EM_BPF) {
        return -ENOEXEC;
    }
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        if (!gelf_getshdr(section, &header)) {
            return -ENOEXEC;
        }
        if (header.sh_type != SHT_PROGBITS || !(header.sh_flags & SHF_EXECINSTR)) {
            continue;
        }
        if (header.sh_offset > size || header.sh_size > size - header.sh_offset
            || header.sh_offset % sizeof(struct bpf_insn)) {
            return -ENOEXEC;
        }
        put(c, (struct bpf_insn *) (image + header.sh_offset), header.sh_size / sizeof(struct bpf_insn));
    }
    return 0;
}

static void put(const struct oxdp_constants *c, struct bpf_insn *insns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (insns[i].code == (BPF_LD | BPF_IMM | BPF_DW)) {
            if (++i < n) {
                put_long(c, &insns[i - 1]);
            }
        } else if (insns[i].code == (BPF_JMP | BPF_CALL)) {
            put_call(c, &insns[i]);
        } else {
            put_immediate(c, &insns[i]);
        }
    }
}

static void put_immediate(const struct oxdp_constants *c, struct bpf_insn *insn)
{
    int class = BPF_CLASS(insn->code);
    uint32_t mark = insn->imm;
    uint32_t i = mark - BPF_MARK_NUMBER;

    if (BPF_SRC(insn->code) != BPF_K
        || (class != BPF_ALU && class != BPF_ALU64 && class != BPF_JMP && class != BPF_JMP32)) {
        return;
    }
    if (BPF_MARK_KIND(mark) == BPF_MARK_OMITS(0, 0)) {
        insn->imm = dp_omit_has(&c->omit, mark >> 8 & 0xff, mark & 0xff) ? 0 : mark;
    } else if (i < BPF_N_NUMBERS) {
        insn->imm = c->number[i];
    } else if (mark - BPF_MARK_KFUNC < BPF_N_KFUNCS) {
        insn->imm = c->kfunc[mark - BPF_MARK_KFUNC];
    }
}

static void put_call(const struct oxdp_constants *c, struct bpf_insn *insn)
{
    uint32_t i = (uint32_t) insn->imm - BPF_MARK_KFUNC;

    if (insn->src_reg != BPF_PSEUDO_KFUNC_CALL || i >= BPF_N_KFUNCS) {
        return;
    }
    if (c->kfunc[i]) {
        insn->imm = c->kfunc[i];
    } else {
        *insn = (struct bpf_insn) { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 };
    }
}

/* Replaces the load of a 64-bit constant. */
static void put_long(const struct oxdp_constants *c, struct bpf_insn insns[2])
{
    uint32_t table = (uint32_t) insns[0].imm - BPF_MARK_TABLE;
    uint32_t set = (uint32_t) insns[0].imm - BPF_MARK_SET;

    if (insns[0].src_reg || insns[1].imm) {
        return;
    }
    if (table < BPF_N_ALL_TABLES) {
        insns[0].src_reg = BPF_PSEUDO_MAP_VALUE;
        insns[0].imm = c->table_fd[table];
    } else if (set < BPF_N_SETS) {
        uint64_t bits = set == BPF_SET_OMITTED_WORDS ? c->omit.words : c->omit.ops;

        insns[0].imm = (uint32_t) bits;
        insns[1].imm = bits >> 32;
    }
}
