/* SPDX-License-Identifier: Apache-2.0 */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

int oxdp_fail(int err, char **ret_error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (ret_error && vasprintf(ret_error, format, args) < 0) {
        *ret_error = NULL;
    }
    va_end(args);
    return err;
}
