/* SPDX-License-Identifier: Apache-2.0 */
/* Three questions that lib/dpif.c answers by looking whether a datapath is
 * one of its own.  The linker's --wrap sends callers here first: for a
 * datapath of type "xdp" the answer is yes, else lib/dpif.c gives it. */
#include <config.h>

#include "dpif.h"
#include "dpif-provider.h"
#include "dpif_xdp.h"

#define ANSWER_FOR_XDP(QUESTION)                                    \
    bool __real_##QUESTION(const struct dpif *);                    \
    bool __wrap_##QUESTION(const struct dpif *);                    \
    bool                                                            \
    __wrap_##QUESTION(const struct dpif *dpif)                      \
    {                                                               \
        return (dpif->dpif_class->open == dpif_xdp_class.open       \
                || __real_##QUESTION(dpif));                        \
    }

ANSWER_FOR_XDP(dpif_supports_tnl_push_pop)
ANSWER_FOR_XDP(dpif_supports_explicit_drop_action)
ANSWER_FOR_XDP(dpif_supports_lb_output_action)
