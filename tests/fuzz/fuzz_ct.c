/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer: conversations through dp/ct*.h must come out as through Open vSwitch's lib/conntrack.
 *
 * Input: one byte, whose low bit makes our compare-and-swaps fail now and then; the rest are the choices of
 * tests/parity/make_ct.c. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/parity/oracle_ct.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ct_choices choices = { .data = data + 1, .left = size ? size - 1 : 0 };

    if (size && parity_ct(&choices, data[0] & 1) == PARITY_DIFFERENT) {
        abort();
    }
    return 0;
}
