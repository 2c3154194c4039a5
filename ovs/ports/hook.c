/* SPDX-License-Identifier: Apache-2.0 */
/* Which hook takes the packets of a port. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "core/kernel/device.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/netdev/netdev_internal.h"
#include "util.h"

/* What is unfinished should stay whole.  Whoever asks for a mode or a program
 * of XDP wants XDP.  Internal ports have no options: the host wants its
 * offloads. */
static enum dpif_xdp_hook
choose_hook(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
            const struct dpif_xdp_netdev_config *config)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    enum dpif_xdp_hook hook = (config->hook == DPIF_XDP_HOOK_AUTO
                               ? dp->ports.hook : config->hook);

    if (dpif_xdp_internal_is(port->netdev)) {
        return DPIF_XDP_HOOK_TCX;
    } else if (hook != DPIF_XDP_HOOK_AUTO) {
        return hook;
    }
    return (config->mode == OXDP_MODE_BEST_EFFORT && !config->has_obj
            && oxdp_device_sends_unfinished(&port->device)
            ? DPIF_XDP_HOOK_TCX : DPIF_XDP_HOOK_XDP);
}

static void
add_choice(struct dpif_xdp_choices *choices, enum dpif_xdp_hook hook,
           enum oxdp_mode mode)
{
    choices->list[choices->n++] = (struct dpif_xdp_choice) {
        .hook = hook, .mode = mode,
    };
}

void
dpif_xdp_port_choices(const struct dpif_xdp_dp *dp,
                      const struct dpif_xdp_port *port,
                      const struct dpif_xdp_netdev_config *config,
                      struct dpif_xdp_choices *choices)
{
    enum dpif_xdp_hook hook = choose_hook(dp, port, config);
    bool fits = port->largest_mtu <= OXDP_MAX_MTU;

    choices->n = 0;
    choices->wanted = hook;
    if (dpif_xdp_hook_has_xdp(hook) && fits) {
        add_choice(choices, hook, config->mode);
        if (config->mode != OXDP_MODE_BEST_EFFORT) {
            add_choice(choices, hook, OXDP_MODE_BEST_EFFORT);
        }
        if (hook == DPIF_XDP_HOOK_BOTH) {
            add_choice(choices, DPIF_XDP_HOOK_XDP, OXDP_MODE_BEST_EFFORT);
        }
    }
    add_choice(choices, DPIF_XDP_HOOK_TCX, OXDP_MODE_BEST_EFFORT);
    if (!dpif_xdp_hook_has_xdp(hook) && fits) {
        add_choice(choices, DPIF_XDP_HOOK_XDP, OXDP_MODE_BEST_EFFORT);
    }
    add_choice(choices, DPIF_XDP_HOOK_NONE, OXDP_MODE_BEST_EFFORT);
    ovs_assert(choices->n <= DPIF_XDP_MAX_CHOICES);
}

enum dpif_xdp_hook
dpif_xdp_port_get_hook(const struct dpif_xdp_port *port)
{
    int hook;

    atomic_read(&CONST_CAST(struct dpif_xdp_port *, port)->hook, &hook);
    return hook;
}

void
dpif_xdp_port_set_hook(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                       enum dpif_xdp_hook hook)
{
    atomic_store(&port->hook, (int) hook);
    dpif_xdp_flow_lock(dp);
    dpif_xdp_fastpath_hook_changed(dp, port->port_no);
    dpif_xdp_flow_unlock(dp);
}
