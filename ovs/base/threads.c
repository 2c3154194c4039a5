/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/base/threads.h"

#include "ovs-thread.h"

static void *
do_nothing(void *aux OVS_UNUSED)
{
    return NULL;
}

int
dpif_xdp_try_thread(void)
{
    pthread_t pthread;
    int error = pthread_create(&pthread, NULL, do_nothing, NULL);

    if (!error) {
        xpthread_join(pthread, NULL);
    }
    return error;
}
