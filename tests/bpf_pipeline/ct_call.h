/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What test_same_ct.c and the program 'track' share.  Include dp/ct.h with a seam first. */
#ifndef TESTS_BPF_PIPELINE_CT_CALL_H
#define TESTS_BPF_PIPELINE_CT_CALL_H 1

/* The arguments of dp_ct(), and what it returned. */
struct ct_call {
    struct dp_frame frame;
    __u32 v6, now;
    __u32 result;
    struct dp_ct_action action;
    struct dp_ct_run run;
};

#endif /* tests/bpf_pipeline/ct_call.h */
