/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/state.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/programs/before.h"
#include "core/programs/layout.h"
#include "core/programs/pin.h"
#include "core/programs/progs.h"
#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"

#define NAME_LEN 64
#define TEXT_LEN 256

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"     /* A table without a rule is not compiled. */

enum oxdp_restart oxdp_state_rule(enum bpf_table i)
{
    switch (i) {
    case BPF_TABLE_head:
    case BPF_TABLE_masks:
    case BPF_TABLE_flows:       /* No flow is trusted that the new ofproto did not install. */
    case BPF_TABLE_stats:
    case BPF_TABLE_buckets:
    case BPF_TABLE_cache:
    case BPF_TABLE_predictions:
    case BPF_TABLE_ops:
    case BPF_TABLE_blobs:
    case BPF_TABLE_runs:
    case BPF_TABLE_tracing:
    case BPF_TABLE_traces:
    case BPF_TABLE_limits:
        return OXDP_RESTART_ANEW;
    case BPF_TABLE_ports:       /* By port number, which Open vSwitch gives out anew: the device tells which is
                                 * which. */
    case BPF_TABLE_counters:
        return OXDP_RESTART_READ;
    case BPF_TABLE_meters:
    case BPF_TABLE_sequence:
        return OXDP_RESTART_ADOPT;
    case BPF_N_TABLES:
        break;
    }
    return OXDP_RESTART_ANEW;
}

#pragma GCC diagnostic pop

/* Of counters, their texts, too: without them a counter that takes another's place would go on from its number. */
static uint64_t layout(const struct oxdp_progs *progs, enum bpf_table i)
{
    static const char *const types[] = {
#define X(NAME, TYPE) #TYPE,
        BPF_TABLES(X)
#undef X
    };
    uint64_t hash = oxdp_layout_hash(bpf_object__btf(progs->maps->obj), types[i] + strlen("struct "), 0);

    for (int j = 0; i == BPF_TABLE_counters && j < DP_N_COUNTERS; j++) {
        hash = oxdp_layout_hash_text(oxdp_counter_text(j), hash);
    }
    return hash;
}

/* The beginning of the names of table 'i' in any layout. */
static void name_any(enum bpf_table i, char name[NAME_LEN])
{
    snprintf(name, NAME_LEN, OXDP_PINS_STATE "%s-", oxdp_memory_name(i));
}

static void name_ours(const struct oxdp_progs *progs, enum bpf_table i, char name[NAME_LEN])
{
    snprintf(name, NAME_LEN, OXDP_PINS_STATE "%s-%016llx", oxdp_memory_name(i), (unsigned long long) layout(progs, i));
}

void oxdp_state_open(const struct oxdp_progs *progs, int fd[BPF_N_TABLES])
{
    for (int i = 0; i < BPF_N_TABLES; i++) {
        fd[i] = -1;
        if (oxdp_state_rule(i) == OXDP_RESTART_ADOPT) {
            char name[NAME_LEN];

            name_ours(progs, i, name);
            fd[i] = oxdp_pins_open_old(progs->pins, name);
        }
    }
}

int oxdp_state_open_old(const struct oxdp_progs *progs, enum bpf_table i)
{
    struct bpf_map_info info = { 0 }, our = { 0 };
    uint32_t len = sizeof info, our_len = sizeof our;
    char name[NAME_LEN];
    int fd;

    name_ours(progs, i, name);
    fd = oxdp_pins_open_old(progs->pins, name);
    if (fd >= 0 && (bpf_obj_get_info_by_fd(fd, &info, &len)
                    || bpf_obj_get_info_by_fd(progs->memory.constants.table_fd[i], &our, &our_len)
                    || info.value_size != our.value_size)) {
        close(fd);
        return -ENOENT;
    }
    return fd;
}

int oxdp_state_pin(const struct oxdp_progs *progs)
{
    int err = 0;

    for (int i = 0; !err && i < BPF_N_TABLES; i++) {
        char name[NAME_LEN];

        name_ours(progs, i, name);
        if (progs->memory.adopted[i]) {
            int fd = oxdp_pins_inherit(progs->pins, name);

            err = fd < 0 ? fd : close(fd);
        } else if (oxdp_state_rule(i) != OXDP_RESTART_ANEW) {
            err = oxdp_pins_add(progs->pins, name, progs->memory.constants.table_fd[i]);
        }
    }
    return err;
}

/* Adds a word to a list of words. */
static void add(char list[TEXT_LEN], const char *word)
{
    size_t len = strlen(list);

    snprintf(list + len, TEXT_LEN - len, "%s%s", len ? ", " : "", word);
}

char *oxdp_state_text(const struct oxdp_progs *progs)
{
    char on[TEXT_LEN] = "", anew[TEXT_LEN] = "", *text = NULL;

    for (int i = 0; i < BPF_N_TABLES; i++) {
        const char *word = oxdp_memory_name(i) + strlen("dp_");
        char name[NAME_LEN];

        name_any(i, name);
        if (progs->memory.adopted[i] || oxdp_before_has(progs, i)) {
            add(on, word);
        } else if (oxdp_state_rule(i) != OXDP_RESTART_ANEW && oxdp_pins_has_old_state(progs->pins, name)) {
            add(anew, word);
        }
    }
    if (on[0] || anew[0]) {
        oxdp_fail(0, &text, "%s%s%s%s%s", on[0] ? "adopted: " : "", on, on[0] && anew[0] ? "; " : "",
                  anew[0] ? "not adopted, because this version has another layout or size of them: " : "", anew);
    }
    return text;
}
