/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DPIF_XDP_VALIDATE_H
#define DPIF_XDP_VALIDATE_H 1

#include <stddef.h>

struct nlattr;

/* Whether lib/odp-execute can execute 'actions', which may come from anybody
 * who may talk to the daemon: it takes for granted that they make sense.
 * Returns 0 or EINVAL. */
int dpif_xdp_validate_actions(const struct nlattr *actions, size_t len);

#endif /* ovs/lookup/validate.h */
