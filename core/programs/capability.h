/* SPDX-License-Identifier: Apache-2.0 */
/* What a BPF object says that its program can do (bpf/capability.h). */
#ifndef OXDP_CAPABILITY_H
#define OXDP_CAPABILITY_H 1

#include "dp/capability.h"

struct bpf_object;

/* Reads the declaration of an object that is open; it need not be loaded.  0; or negative errno with a sentence in
 * '*ret_error' (malloc'd): -ENOENT when it declares nothing, -EPROTO when it was built for other tables. */
int oxdp_capability_read(const struct bpf_object *, struct dp_capability *ret, char **ret_error);

#endif /* core/programs/capability.h */
