/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of programs: core/programs/object.c. */
#ifndef OXDP_OBJECT_H
#define OXDP_OBJECT_H 1

#include <stddef.h>

struct bpf_object;
struct bpf_program;
struct dp_capability;

/* Reads the object in 'file', NULL for that of this library.  0, with an image that the caller frees unless it is the
 * library's; or a negative errno with the rest of a sentence in '*ret_error'. */
int oxdp_object_read(const char *file, const void **ret_image, size_t *ret_size, char **ret_error);

/* Whether 'object', open but not loaded, is a program for ports of this version.  0, with what it can do and the
 * program to load; or a negative errno with the rest of a sentence in '*ret_error'. */
int oxdp_object_check(const struct bpf_object *object, struct dp_capability *ret_capability,
                      struct bpf_program **ret_program, char **ret_error);

#endif /* core/programs/object.h */
