/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OXDP_CPU_H
#define OXDP_CPU_H 1

#include <stdint.h>

/* Numbers of CPUs are below this; not all need exist (/sys/devices/system/cpu/possible). */
uint32_t oxdp_n_cpu_ids(void);

#endif /* core/cpu.h */
