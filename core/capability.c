/* SPDX-License-Identifier: Apache-2.0 */
#include "core/capability.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dp/table.h"

int oxdp_capability_read(const struct bpf_object *object, struct dp_capability *ret, char **ret_error)
{
    struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.capability");
    size_t size = 0;
    const void *value = map ? bpf_map__initial_value(map, &size) : NULL;
    struct dp_capability capability;

    *ret_error = NULL;
    if (!value || size < sizeof capability) {
        if (asprintf(ret_error, "%s does not say what it can do: include bpf/capability.h.",
                     bpf_object__name(object)) < 0) {
            *ret_error = NULL;
        }
        return -ENOENT;
    }
    memcpy(&capability, value, sizeof capability);
    if (capability.table_version != DP_TABLE_VERSION) {
        if (asprintf(ret_error, "%s was built for tables of version %u, this is version %u: build it again.",
                     bpf_object__name(object), capability.table_version, DP_TABLE_VERSION) < 0) {
            *ret_error = NULL;
        }
        return -EPROTO;
    }
    *ret = capability;
    return 0;
}
