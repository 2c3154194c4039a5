/* SPDX-License-Identifier: Apache-2.0 */
/* Names and options of commands xdp/... */
#include <config.h>

#include "ovs/provider/appctl.h"

#include <stdlib.h>
#include <string.h>

#include "netdev.h"
#include "ovs/datapath/datapath.h"
#include "util.h"

static int
compare_ports(const void *a_, const void *b_)
{
    const struct dpif_xdp_port *const *a = a_;
    const struct dpif_xdp_port *const *b = b_;
    uint32_t x = odp_to_u32((*a)->port_no);
    uint32_t y = odp_to_u32((*b)->port_no);

    return x < y ? -1 : x > y;
}

static bool
is_port(const struct dpif_xdp_port *port, const char *name_or_number)
{
    char number[12];

    snprintf(number, sizeof number, "%"PRIu32, odp_to_u32(port->port_no));
    return (!strcmp(netdev_get_name(port->netdev), name_or_number)
            || !strcmp(number, name_or_number));
}

struct dpif_xdp_port **
dpif_xdp_query_ports(const struct dpif_xdp_dp *dp,
                     const struct dpif_xdp_query *query, size_t *n)
{
    struct dpif_xdp_port **ports;
    struct dpif_xdp_port *port;

    ports = xmalloc((dpif_xdp_n_ports(dp) + 1) * sizeof *ports);
    *n = 0;
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        if (!query->port || is_port(port, query->port)) {
            ports[(*n)++] = port;
        }
    }
    qsort(ports, *n, sizeof *ports, compare_ports);
    return ports;
}

bool
dpif_xdp_query_is_dp(const struct dpif_xdp_dp *dp, const char *name)
{
    size_t type_len = strlen(dp->class->type);

    return (!strcmp(name, dp->name)
            || (!strncmp(name, dp->class->type, type_len)
                && name[type_len] == '@'
                && !strcmp(name + type_len + 1, dp->name)));
}
