/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that ports use: core/programs/program.c. */
#ifndef OXDP_PROGRAM_H
#define OXDP_PROGRAM_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/locks.h"
#include "dp/capability.h"

struct oxdp_progs;

/* A program that ports use, complete and specialised. */
struct oxdp_program {
    struct oxdp_program *next;
    char *file;                 /* NULL: the one of this library. */
    const void *image;          /* The object, as it was when it was read. */
    size_t size;
    /* Ports; the list, of the library's; the thread that specialises. */
    uint32_t n_users OXDP_GUARDED_BY(oxdp_special_mutex);
    int fd;                     /* Complete. */
    int special_fd OXDP_GUARDED_BY(oxdp_special_mutex);     /* Specialised; -1: there is none. */
    int new_fd OXDP_GUARDED_BY(oxdp_special_mutex);         /* Loaded by the thread that specialises, not in use yet. */
    bool bare;                  /* Without flow tables, though there are some: it hands every frame up. */
    struct dp_capability capability;    /* As the object declares it. */
    bool over_ct;               /* Loaded over the tables of connections, or tried; core/programs/track.c. */
    bool multi_buffer;          /* It takes multi-buffer frames (core/multi_buffer.h). */
};

/* Loads the program of this library, or one without flow tables if the kernel does not take that ('progs->bare').  0 or
 * a negative errno with a sentence in '*ret_error'. */
int oxdp_programs_init(struct oxdp_progs *progs, char **ret_error);
void oxdp_programs_free(struct oxdp_progs *progs);

/* The program of port 'port_no', valid as long as the mutex is held. */
struct oxdp_program *oxdp_program_of(const struct oxdp_progs *progs, uint32_t port_no)
    OXDP_REQUIRES(oxdp_special_mutex);

/* Takes a user from 'program'; without users it is freed.  NULL is allowed. */
void oxdp_program_put(struct oxdp_progs *progs, struct oxdp_program *program) OXDP_REQUIRES(oxdp_special_mutex);

/* The descriptor of 'program' as it runs now, complete or specialised. */
int oxdp_program_fd(const struct oxdp_progs *progs, const struct oxdp_program *program)
    OXDP_REQUIRES(oxdp_special_mutex);

#endif /* core/programs/program.h */
