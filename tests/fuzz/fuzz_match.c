/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer: a compiled match must match the frames that Open vSwitch's does.
 *
 * Input: two lengths, a mask of the first length, a frame of the second; the rest is another frame. */
#include <stdint.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/parity/oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || 2u + data[0] + data[1] > size) {
        return 0;
    }

    const uint8_t *mask = data + 2;
    const uint8_t *frame = mask + data[0];
    const uint8_t *other = frame + data[1];

    if (parity_match(frame, data[1], other, data + size - other, mask, data[0]) == PARITY_DIFFERENT) {
        abort();
    }
    return 0;
}
