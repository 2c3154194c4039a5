/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms of core/programs/progs.h share: core/programs/progs.c (the whole), maps.c (the maps), object.c (where programs
 * come from), load.c (programs over the maps), program.c (which port uses which), attach.c (ports),
 * counter.c (what programs counted). */
#ifndef OXDP_PROG_PRIVATE_H
#define OXDP_PROG_PRIVATE_H 1

#include <pthread.h>

#include "bpf/maps.h"
#include "core/tables/memory.h"
#include "core/tables/need.h"
#include "core/programs/progs.h"
#include "dp/omit.h"
#include "dp/table.h"

struct oxdp_tcx;
struct bpf_map;
struct bpf_object;
struct bpf_program;
struct oxdp_pins;
struct xdp_bpf;

struct oxdp_attachment {
    int ifindex;                /* 0: free. */
    int link_fd;                /* XDP, or -1. */
    int tcx_fd;                 /* tcx, or -1. */
    bool passes;                /* The XDP program is oxdp_pass() of bpf/tcx.bpf.c. */
    bool native;                /* XDP's mode, as in oxdp_progs_attach(). */
    bool old_program;           /* The XDP link, inherited, still runs the program of the process before. */
    bool old_tcx;               /* What the process before left at tcx still handles the packets. */
    bool clsact;                /* A filter there does what a tcx link would. */
    int error;                  /* Why it has no program any more (oxdp_progs_error()). */
    bool overflow;              /* The port is in 'ports_overflow', not in 'ports'. */
    struct bpf_port port;
};

/* A program that ports use, complete and specialised. */
struct oxdp_program {
    struct oxdp_program *next;
    char *file;                 /* NULL: the one of this library. */
    const void *image;          /* The object, as it was when it was read. */
    size_t size;
    uint32_t n_users;           /* Ports; the list, of the library's; the thread that specialises. */
    int fd;                     /* Complete. */
    int special_fd;             /* Specialised; -1: there is none. */
    int new_fd;                 /* Loaded by the thread that specialises, not in use yet. */
    struct dp_capability capability;    /* As the object declares it. */
};

/* See core/programs/specialise.c.  Under 'mutex', as is attaching. */
struct oxdp_special {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_cond_t done;
    pthread_t thread;
    bool running;
    bool stop;
    bool made;                          /* There are specialised programs. */
    struct dp_omit omit;                /* What they omit. */
    bool omitting;                      /* They run, not the complete ones. */
    bool looking;                       /* The thread looks at flows or loads a program ... */
    struct oxdp_needs meanwhile;        /* ... and this is what flows that came since then need. */
    uint32_t looks;                     /* Times that it began to; read without the mutex. */
    struct oxdp_needs wanted;           /* By flows for which there is no specialised program. */
    struct oxdp_needs told;             /* By flows since look 'told_looks': saying so again changes nothing. */
    uint32_t told_looks;                /* Both are the caller's of oxdp_progs_require(). */
    uint32_t quiet;                     /* Ticks since that changed. */
    uint64_t asked, answered;           /* Times that the thread was asked to specialise. */
    uint64_t replaced;                  /* Times that programs were. */
    int error;                          /* Of the last answer. */
};

struct oxdp_progs {
    struct xdp_bpf *maps;               /* Holds the maps; its own program is not loaded. */
    struct oxdp_program *programs;      /* Over them; the library's is the first. */
    struct oxdp_program **used;         /* By port number, 'max_ports': NULL for the library's. */
    struct oxdp_special special;
    struct oxdp_pins *pins;             /* NULL: not pinned. */
    char *unpinned;                     /* Why. */
    bool taken_over;                    /* No device runs a program of a process before. */
    uint32_t n_cpu_ids;                 /* Numbers of CPUs are below this; not all need exist. */
    struct oxdp_memory memory;
    struct oxdp_table *table;           /* NULL: no flow tables. */

    struct oxdp_tcx *tcx;               /* core/programs/tcx.c; NULL: no port has tcx. */

    /* Ports. */
    uint32_t n_direct;                  /* Entries of the map 'ports': a power of two. */
    uint32_t *direct;                   /* The ifindex in each of them, 0 if none. */
    uint32_t max_ports;
    struct oxdp_attachment *attachments;    /* 'max_ports'; the counter slot is the index + 1. */
    struct oxdp_groups *groups;         /* core/programs/group.c. */
    uint32_t max_sockets;
    bool *socket_used;                  /* 'max_sockets'. */
    bool *can_output;                   /* 'max_ports'. */
    bool *absent;                       /* The same. */

    /* Counters. */
    uint32_t n_slots;                   /* Counter slots that were ever in use. */
    uint64_t retired[DP_N_COUNTERS];    /* Counted by ports before those that have their slots now. */
};

/* Makes the maps in the sizes of 'config', and the flow tables in them.  0 or a negative errno. */
int oxdp_maps_create(struct oxdp_progs *progs, const struct oxdp_progs_config *config);
void oxdp_maps_destroy(struct oxdp_progs *progs);

/* Makes the maps of 'object', open but not loaded, those of 'progs' where they have the same names (but for read-only
 * data, which is the program's own).  0, or a negative errno with a sentence in '*ret_error': -EPROTO if a map has
 * another shape there. */
int oxdp_maps_share(const struct oxdp_progs *progs, struct bpf_object *object, char **ret_error);

/* Pins all of them.  0 or a negative errno. */
int oxdp_maps_pin(const struct oxdp_progs *progs);

/* Reads the object in 'file', NULL for that of this library.  0, with an image that the caller frees unless it is the
 * library's; or a negative errno with the rest of a sentence in '*ret_error'. */
int oxdp_object_read(const char *file, const void **ret_image, size_t *ret_size, char **ret_error);

/* Whether 'object', open but not loaded, is a program for ports of this version.  0, with what it can do and the
 * program to load; or a negative errno with the rest of a sentence in '*ret_error'. */
int oxdp_object_check(const struct bpf_object *object, struct dp_capability *ret_capability,
                      struct bpf_program **ret_program, char **ret_error);

/* Loads 'program' over the maps, without what 'omit' says.  0, with a file descriptor and what it can do; or a negative
 * errno with a sentence in '*ret_error'.  Any thread. */
int oxdp_program_load(const struct oxdp_progs *progs, const struct oxdp_program *program, const struct dp_omit *omit,
                      int *ret_fd, struct dp_capability *ret_capability, char **ret_error);

/* Loads the program of this library.  0 or a negative errno with a sentence in '*ret_error'. */
int oxdp_programs_init(struct oxdp_progs *progs, char **ret_error);
void oxdp_programs_free(struct oxdp_progs *progs);

/* The program of port 'port_no'.  Called with special.mutex, as what is done with it, and oxdp_program_put(). */
struct oxdp_program *oxdp_program_of(const struct oxdp_progs *progs, uint32_t port_no);

/* Takes a user from 'program', which goes with the last.  NULL is allowed. */
void oxdp_program_put(struct oxdp_progs *progs, struct oxdp_program *program);

/* Starts and stops the thread that specialises. */
int oxdp_special_start(struct oxdp_progs *progs);
void oxdp_special_stop(struct oxdp_progs *progs);

/* Brackets the making and exchanging of links, whose program between them is oxdp_special_prog() of their ports'. */
void oxdp_special_begin_attach(struct oxdp_progs *progs, bool local_stack);
void oxdp_special_end_attach(struct oxdp_progs *progs);

/* The descriptor of 'program' as it runs now: specialised, if that is the time.  Called with special.mutex. */
int oxdp_special_prog(const struct oxdp_progs *progs, const struct oxdp_program *program);

/* Between these, libbpf's first warning is kept (this thread's; libbpf says why a program does not load only through
 * a callback); the second returns it, "" if there was none, valid until the next call. */
void oxdp_libbpf_listen(void);
const char *oxdp_libbpf_heard(void);

/* Attaches the XDP program of 'at' to its device, or inherits the link that is there (oxdp_progs_take_over()).  0
 * or a negative errno. */
int oxdp_link_attach(struct oxdp_progs *progs, struct oxdp_attachment *at);

/* Gives the XDP link of 'at' the program that it is to have, from one frame to the next; a link that refuses that is
 * replaced.  0 or a negative errno. */
int oxdp_link_exchange(struct oxdp_progs *progs, struct oxdp_attachment *at);

/* Detaches what is pinned as 'hook'-ifindex and open as 'fd'.  Nothing if that is negative. */
void oxdp_link_detach(struct oxdp_progs *progs, const char *hook, int fd, int ifindex);

/* Starts and stops core/programs/group.c; tells it that programs can send to port 'port_no' through device 'ifindex', or not
 * with 0.  0 or a negative errno. */
int oxdp_groups_start(struct oxdp_progs *progs);
void oxdp_groups_stop(struct oxdp_progs *progs);
int oxdp_groups_set_output(struct oxdp_progs *progs, uint32_t port_no, int ifindex);

/* Adds what counter slot 'slot' has counted on all processors to 'sum'; clears it for a new port. */
void oxdp_counters_sum(const struct oxdp_progs *progs, uint32_t slot, uint64_t sum[DP_N_COUNTERS]);
void oxdp_counters_take_slot(struct oxdp_progs *progs, uint32_t slot);

struct oxdp_attachment *oxdp_progs_find(const struct oxdp_progs *progs, int ifindex);

/* A new port for device 'ifindex', in the programs' tables; nothing is attached yet.  'sock_fds' as in
 * oxdp_progs_attach().  0, or a negative errno with a sentence in '*ret_error'. */
int oxdp_attachment_new(struct oxdp_progs *progs, int ifindex, uint32_t port_no, bool local_stack,
                        const int sock_fds[], uint32_t n_queues, struct oxdp_attachment **ret_at, char **ret_error);
void oxdp_attachment_free(struct oxdp_progs *progs, struct oxdp_attachment *at);

/* Tells the programs of a change to 'at->port'.  0 or a negative errno. */
int oxdp_attachment_write(const struct oxdp_progs *progs, const struct oxdp_attachment *at);

/* Puts our program into the place of that of the process before (0 or a negative errno); the program that lets packets
 * pass to tcx (core/programs/tcx.c). */
int oxdp_tcx_take_over(struct oxdp_progs *progs, struct oxdp_attachment *at);
int oxdp_tcx_pass_prog(const struct oxdp_progs *progs);

/* Returns 'err' with the sentence in '*ret_error'. */
int oxdp_fail(int err, char **ret_error, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif /* core/programs/progs_private.h */
