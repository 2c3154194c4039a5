/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of Open vSwitch that ours take the place of.  A file of its own:
 * tests/ovs/dummy_wrapper.c, which renames commands too, is linked instead. */
#include <config.h>

#include "ovs/provider/ct_commands.h"
#include "ovs/provider/provider_private.h"
#include "unixctl.h"

void __real_unixctl_command_register(const char *, const char *, int, int,
                                     unixctl_cb_func *, void *);
void __wrap_unixctl_command_register(const char *, const char *, int, int,
                                     unixctl_cb_func *, void *);

void
__wrap_unixctl_command_register(const char *name, const char *usage,
                                int min_args, int max_args,
                                unixctl_cb_func *cb, void *aux)
{
    dpif_xdp_ct_command_take(name, &cb, &aux);
    dpif_xdp_leave_take(name, &cb);
    dpif_xdp_detrace_take(name, &cb);
    __real_unixctl_command_register(name, usage, min_args, max_args, cb, aux);
}
