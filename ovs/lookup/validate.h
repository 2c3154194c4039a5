/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DPIF_XDP_VALIDATE_H
#define DPIF_XDP_VALIDATE_H 1

#include <stddef.h>

struct nlattr;

/* Whether lib/odp-execute can execute 'actions': it does not check them, and
 * every client of the daemon's control socket may send some.  Returns 0 or
 * EINVAL. */
int dpif_xdp_validate_actions(const struct nlattr *actions, size_t len);

#endif /* ovs/lookup/validate.h */
