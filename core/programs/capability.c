/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/capability.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "dp/record.h"
#include "dp/table.h"

static int wrong_version(const char *what, uint32_t theirs, uint32_t ours, char **ret_error);

int oxdp_capability_read(const struct bpf_object *object, struct dp_capability *ret, char **ret_error)
{
    struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata.capability");
    size_t size = 0;
    const void *value = map ? bpf_map__initial_value(map, &size) : NULL;
    struct dp_capability capability;

    *ret_error = NULL;
    if (!value || size < sizeof capability) {
        return oxdp_fail(-ENOENT, ret_error, "it does not say what it can do: include bpf/capability.h");
    }
    memcpy(&capability, value, sizeof capability);
    if (capability.table_version != DP_TABLE_VERSION && capability.table_version != DP_TABLE_VERSION_ORDERED) {
        return wrong_version("tables", capability.table_version, DP_TABLE_VERSION, ret_error);
    }
    if (capability.record_version != DP_RECORD_VERSION) {
        return wrong_version("records", capability.record_version, DP_RECORD_VERSION, ret_error);
    }
    *ret = capability;
    return 0;
}

static int wrong_version(const char *what, uint32_t theirs, uint32_t ours, char **ret_error)
{
    return oxdp_fail(-EPROTO, ret_error, "it was built for %s of version %u, this is version %u: build it again", what,
                     theirs, ours);
}
