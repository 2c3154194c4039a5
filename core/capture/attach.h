/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of bpf/capture.bpf.c, attached to programs of the switch. */
#ifndef OXDP_CAPTURE_ATTACH_H
#define OXDP_CAPTURE_ATTACH_H 1

#include <stddef.h>
#include <stdint.h>

#include "core/capture/capture.h"

struct bpf_link;
struct bpf_object;

/* What is attached to one program, or to the kernel. */
struct oxdp_capture_attached {
    uint32_t id;                /* Of that program. */
    struct bpf_object *object;
    struct bpf_link *links[2];
};

struct oxdp_capture_objects {
    struct oxdp_capture_config config;
    void *image;                /* The object file, with the filter in it. */
    size_t size;
    struct bpf_object *first;   /* Its maps are those of all. */
    uint32_t netns;             /* Inode of the network namespace. */
    uint32_t peer_flag;         /* The kernel's, of bpf_redirect_peer(). */
};

/* Prepares.  0, or a negative errno with a sentence in '*ret_error'; oxdp_capture_objects_free() in either case. */
int oxdp_capture_objects_init(struct oxdp_capture_objects *, const struct oxdp_capture_config *, char **ret_error);
void oxdp_capture_objects_free(struct oxdp_capture_objects *);

/* If program 'id' is one of a switch that serves ports: attaches to it until oxdp_capture_detach(), and returns 1.
 * Else 0, or a negative errno with a sentence in '*ret_error'. */
int oxdp_capture_attach(struct oxdp_capture_objects *, uint32_t id, struct oxdp_capture_attached *, char **ret_error);

/* Attaches to the kernel's function through which sockets send past the network stack.  0, or a negative errno with a
 * sentence. */
int oxdp_capture_attach_direct(struct oxdp_capture_objects *, struct oxdp_capture_attached *, char **ret_error);

/* Also of what was never attached, all zeros. */
void oxdp_capture_detach(struct oxdp_capture_attached *);

int oxdp_capture_events_fd(const struct oxdp_capture_objects *);

/* Packets that were more than the rate allows. */
uint64_t oxdp_capture_beyond_rate(const struct oxdp_capture_objects *);

#endif /* core/capture/attach.h */
