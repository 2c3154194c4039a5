/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/netdev/spelling.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "util.h"

#define MAX_LENGTH 31                   /* Longer words are alike to none. */

static bool
is_same(char a, char b)
{
    return (tolower((unsigned char) a) == tolower((unsigned char) b)
            || (a == '_' && b == '-') || (a == '-' && b == '_'));
}

/* The Levenshtein distance of 'a' and 'b', by one row of the matrix. */
static size_t
distance(const char *a, const char *b)
{
    size_t row[MAX_LENGTH + 1];
    size_t n = strlen(b);

    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t replaced = diagonal + !is_same(a[i], b[j]);

            diagonal = row[j + 1];
            row[j + 1] = MIN(replaced, MIN(row[j], row[j + 1]) + 1);
        }
    }
    return row[n];
}

const char *
dpif_xdp_spelling_closest(const char *word, const char *const words[],
                          size_t n)
{
    const char *closest = NULL;
    size_t least = SIZE_MAX;

    for (size_t i = 0; i < n && strlen(word) <= MAX_LENGTH; i++) {
        size_t length = strlen(words[i]);
        size_t d = length <= MAX_LENGTH ? distance(word, words[i]) : SIZE_MAX;

        if (d < least && d <= length / 3) {
            least = d;
            closest = words[i];
        }
    }
    return closest;
}
