/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H 1

#include <stddef.h>
#include <stdint.h>

/* What libFuzzer, or tests/fuzz/replay.c, calls with each input. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* tests/fuzz/fuzz.h */
