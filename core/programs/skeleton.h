/* SPDX-License-Identifier: Apache-2.0 */
/* bpf/xdp.skel.h, which bpftool makes, with the types that it uses. */
#ifndef OXDP_SKELETON_H
#define OXDP_SKELETON_H 1

#include "bpf/maps.h"
#include "dp/capability.h"

#include "bpf/xdp.skel.h"

#endif /* core/programs/skeleton.h */
