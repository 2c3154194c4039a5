/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/libbpf_log.h"

#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int remember_warning(enum libbpf_print_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static __thread bool listening;
static __thread char last_warning[512];
static libbpf_print_fn_t others;        /* The callback of this process for threads that do not listen. */

void oxdp_libbpf_listen(void)
{
    libbpf_print_fn_t before = libbpf_set_print(remember_warning);

    if (before != remember_warning) {
        others = before;
    }
    listening = true;
    last_warning[0] = '\0';
}

const char *oxdp_libbpf_heard(void)
{
    listening = false;
    return last_warning;
}

static int remember_warning(enum libbpf_print_level level, const char *format, va_list args)
{
    if (!listening) {
        return others ? others(level, format, args) : 0;
    }
    if (level == LIBBPF_WARN && !last_warning[0]) {
        vsnprintf(last_warning, sizeof last_warning, format, args);
        last_warning[strcspn(last_warning, "\n")] = '\0';
    }
    return 0;
}
