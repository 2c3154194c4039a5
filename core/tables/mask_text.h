/* SPDX-License-Identifier: Apache-2.0 */
/* Masks of the flow tables as text. */
#ifndef OXDP_MASK_TEXT_H
#define OXDP_MASK_TEXT_H 1

#include "dp/key.h"

/* The fields that 'mask' matches, such as "in_port, recirc_id, eth_type, ip_frag, ip4_dst/24" (malloc'd;
 * NULL without memory).  A field is matched whole unless a prefix length or the mask's bits follow.  Some
 * fields share words of the key: 'flow', the key of a flow with that mask, says which of them are meant. */
char *oxdp_mask_to_text(const union dp_key *mask, const union dp_key *flow);

#endif /* core/tables/mask_text.h */
