/* SPDX-License-Identifier: Apache-2.0 */
/* Errors with a sentence for the log. */
#ifndef OXDP_ERROR_H
#define OXDP_ERROR_H 1

/* Writes the sentence to '*ret_error', for the caller to free: NULL if there is no memory for it, nothing if
 * 'ret_error' is NULL.  Returns 'err'.  Any thread. */
int oxdp_fail(int err, char **ret_error, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif /* core/error.h */
