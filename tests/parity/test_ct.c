/* SPDX-License-Identifier: Apache-2.0 */
/* Random conversations through dp/ct*.h and through Open vSwitch's lib/conntrack, from a fixed seed.
 *
 *   test_ct [CONVERSATIONS [SEED]] */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#include "tests/parity/oracle_ct.h"

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    unsigned long n[3] = { 0 }, packets = 0, kinds = 0;

    for (unsigned long i = 0; i < rounds; i++) {
        struct ct_choices choices = { .random = (seed + i) * 0x9e3779b97f4a7c15ull | 1 };
        enum parity result = parity_ct(&choices, (seed + i) & 1);

        n[result]++;
        packets += choices.packets;
        if (result == PARITY_DIFFERENT) {
            printf("conversation %lu of seed %llu, packet %lu: test_ct 1 %llu\n", i, (unsigned long long) seed,
                   choices.packets, (unsigned long long) (seed + i));
            return 1;
        }
    }
    for (int state = 0; state < 256; state++) {
        if (ct_oracle_left.states[state]) {
            printf("ct_state %#04x: %lu\n", state, ct_oracle_left.states[state]);
            kinds++;
        }
    }
    printf("%lu conversations with %lu packets equal; left early: %lu with an ended connection's second tuple, %lu "
           "with two connections of one tuple, %lu with full buckets, %lu with a failed assertion; bytes of %lu "
           "ICMPv6 errors not compared\n",
           n[PARITY_EQUAL] + n[PARITY_BEYOND], packets, ct_oracle_left.corpses, ct_oracle_left.twins,
           ct_oracle_left.full, ct_oracle_left.asserted, ct_oracle_left.quotes);
    return kinds < 10 || n[PARITY_BEYOND] > rounds / 5;
}
