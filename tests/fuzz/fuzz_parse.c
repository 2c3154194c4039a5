/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer: dp_parse() must see in every frame what Open vSwitch's flow_extract() sees.
 *
 * Input: one byte, whose low bit is the VLAN limit less one; the rest is the frame. */
#include <stdint.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/parity/oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1 && parity_parse(data + 1, size - 1, 1 + (data[0] & 1)) == PARITY_DIFFERENT) {
        abort();
    }
    return 0;
}
