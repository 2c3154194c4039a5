/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of libpcap, which are classic BPF, as part of a BPF program (bpf/capture.bpf.c). */
#ifndef OXDP_CAPTURE_FILTER_H
#define OXDP_CAPTURE_FILTER_H 1

#include <linux/bpf.h>
#include <linux/filter.h>
#include <stddef.h>

/* Translates the 'n' instructions of 'filter' into at most 'room' of 'ret_insns', to be followed by what returns r0.
 * When they begin, r6 points to BPF_CAPTURE_HEAD bytes of which the first r7 are the packet's, r8 is the packet's
 * length, and 64 bytes of stack are written.  r0 is 1 at the end if the packet matches, else 0.  Returns how many there
 * are; or a negative errno with a sentence in '*ret_error' (malloc'd): -EINVAL for what is no filter, or looks further
 * into packets; -E2BIG for one that is too long. */
int oxdp_capture_filter(const struct sock_filter *filter, size_t n, struct bpf_insn *ret_insns, size_t room,
                        char **ret_error);

#endif /* core/capture/filter.h */
