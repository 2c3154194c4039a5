/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions for misspelt words. */
#ifndef DPIF_XDP_SPELLING_H
#define DPIF_XDP_SPELLING_H 1

#include <stddef.h>

/* The one of the 'n' strings 'words' that takes the fewest edits (insert,
 * delete or replace a character; '_' is equal to '-') to make from 'word', or
 * NULL if none is alike: if more than a third of its characters must change.
 * Any thread. */
const char *dpif_xdp_spelling_closest(const char *word,
                                      const char *const words[], size_t n);

#endif /* ovs/netdev/spelling.h */
