/* SPDX-License-Identifier: Apache-2.0 */
/* Constants in objects: every mark is exchanged for what it stands for, and what is no object is refused. */
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <linux/bpf.h>

#include "core/tables/memory.h"

/* After the types of the maps. */
#include "bpf/xdp.skel.h"

/* Found nowhere else in the code. */
#define FIRST_FD 0x5d3b1900
#define FIRST_KFUNC 0x5d4c2b00
#define FIRST_NUMBER 0x5e4c2a00
#define WORDS 0x5f6e3b0012345678ull
#define OPS 0x5f6e3b0023456789ull

struct found {
    int omissions;              /* Jumps over what may be left out, not taken. */
    int numbers, tables;        /* Constants that we gave. */
    int sets;                   /* Loads of our sets of bits. */
    int kfuncs;                 /* Calls of kernel functions that we gave. */
    int marks;                  /* Left. */
};

static struct oxdp_constants constants(void)
{
    struct oxdp_constants c = { .omit = { .parts = DP_PART(MPLS), .words = WORDS, .ops = OPS } };

    for (int i = 0; i < BPF_N_NUMBERS; i++) {
        c.number[i] = FIRST_NUMBER + i;
    }
    for (int i = 0; i < BPF_N_ALL_TABLES; i++) {
        c.table_fd[i] = FIRST_FD + i;
    }
    for (int i = 0; i < BPF_N_KFUNCS; i++) {
        c.kfunc[i] = FIRST_KFUNC + i;
    }
    return c;
}

static bool is_load_of(const struct bpf_insn insns[2], uint64_t bits)
{
    return (uint32_t) insns[0].imm == (uint32_t) bits && (uint32_t) insns[1].imm == bits >> 32;
}

static void look_at(const struct bpf_insn *insns, size_t n, struct found *found)
{
    for (size_t i = 0; i < n; i++) {
        struct bpf_insn insn = insns[i];
        uint32_t mark = BPF_MARK_KIND((uint32_t) insn.imm);

        if (insn.code == (BPF_JMP | BPF_JEQ | BPF_K) && mark == BPF_MARK_OMITS(0, 0)) {
            found->omissions++;
        } else if (mark == BPF_MARK_NUMBER || mark == BPF_MARK_TABLE || mark == BPF_MARK_SET
                   || mark == BPF_MARK_KFUNC) {
            found->marks++;
        } else if (insn.code == (BPF_JMP | BPF_CALL) && insn.src_reg == BPF_PSEUDO_KFUNC_CALL) {
            assert_in_range(insn.imm, FIRST_KFUNC, FIRST_KFUNC + BPF_N_KFUNCS - 1);
            found->kfuncs++;
        } else if (insn.code == (BPF_LD | BPF_IMM | BPF_DW) && i + 1 < n
                   && (is_load_of(&insns[i], WORDS) || is_load_of(&insns[i], OPS))) {
            found->sets++;
        } else if (insn.code == (BPF_LD | BPF_IMM | BPF_DW) && insn.src_reg == BPF_PSEUDO_MAP_VALUE
                   && insn.imm >= FIRST_FD && insn.imm < FIRST_FD + BPF_N_ALL_TABLES) {
            found->tables++;
        } else if (insn.code != (BPF_LD | BPF_IMM | BPF_DW) && insn.imm >= FIRST_NUMBER
                   && insn.imm < FIRST_NUMBER + BPF_N_NUMBERS) {
            found->numbers++;
        }
    }
}

/* Looks at the code of an object. */
static struct found look(const void *image, size_t size)
{
    struct found found = { 0 };
    Elf *elf;

    elf_version(EV_CURRENT);
    elf = elf_memory((char *) image, size);
    assert_non_null(elf);
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        GElf_Shdr header;

        assert_non_null(gelf_getshdr(section, &header));
        if (header.sh_flags & SHF_EXECINSTR) {
            look_at((const struct bpf_insn *) ((const char *) image + header.sh_offset),
                    header.sh_size / sizeof(struct bpf_insn), &found);
        }
    }
    elf_end(elf);
    return found;
}

static void test_all_are_put(void **state)
{
    struct oxdp_constants c = constants();
    size_t size;
    const void *image = xdp_bpf__elf_bytes(&size);
    struct found before = look(image, size);
    void *copy = oxdp_constants_put(&c, image, size);
    struct found after;

    assert_non_null(copy);
    after = look(copy, size);
    assert_true(before.marks > 0 && before.tables == 0 && before.numbers == 0 && before.sets == 0
                && before.kfuncs == 0);
    assert_int_equal(after.marks, 0);
    assert_true(after.tables > 0 && after.numbers > 0 && after.sets > 0 && after.kfuncs > 0);
    assert_int_equal(after.tables + after.numbers + after.sets + after.kfuncs, before.marks);
    assert_in_range(after.omissions, 1, before.omissions - 1);          /* MPLS is left out, the rest is not. */
    free(copy);
}

/* A kernel that lacks the functions gets no calls of them: libbpf and the verifier would look for them. */
static void test_no_kfuncs(void **state)
{
    struct oxdp_constants c = constants();
    size_t size;
    const void *image = xdp_bpf__elf_bytes(&size);
    struct found before = look(image, size);
    struct found after;
    void *copy;

    memset(c.kfunc, 0, sizeof c.kfunc);
    copy = oxdp_constants_put(&c, image, size);
    assert_non_null(copy);
    after = look(copy, size);
    assert_int_equal(after.marks + after.kfuncs, 0);
    assert_true(after.tables + after.numbers + after.sets < before.marks);
    free(copy);
}

/* Whatever a user's file is: an answer, and no byte outside of it touched (the sanitizers watch). */
static void test_what_is_no_object(void **state)
{
    struct oxdp_constants c = constants();
    size_t size;
    const uint8_t *image = xdp_bpf__elf_bytes(&size);
    uint8_t *bad = malloc(size);

    assert_non_null(bad);
    assert_null(oxdp_constants_put(&c, "not an object", 13));
    assert_int_equal(errno, ENOEXEC);
    srand(1);
    for (int i = 0; i < 400; i++) {
        size_t length = i % 2 ? size : rand() % size;

        memcpy(bad, image, size);
        for (int n = 0; n < 8; n++) {
            /* The header, or the table of sections at the end. */
            size_t at = n % 2 ? rand() % 64 : size - 1 - rand() % 1024;

            bad[at] = rand();
        }
        free(oxdp_constants_put(&c, bad, length));
    }
    free(bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_put),
        cmocka_unit_test(test_no_kfuncs),
        cmocka_unit_test(test_what_is_no_object),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
