/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting until no program can hold what was unlinked from the tables. */
#ifndef OXDP_GRACE_H
#define OXDP_GRACE_H 1

/* Both return after every program run that had begun has ended, and have the type of oxdp_table_callbacks' 'grace'.
 *
 * The first is for programs that run on their hooks, and takes some tens of microseconds: there programs run with bottom
 * halves disabled, so a CPU that runs a thread runs no program, and neither does one that is idle.  The calling thread
 * asks which are, interrupts each of the others to see whether it runs a thread (bpf/grace.bpf.c), and goes to those that
 * do not, or where that cannot be seen (on x86 before Linux 6.11).  Where that says nothing (a kernel with
 * PREEMPT_RT) or cannot be done (a CPU that its cpuset excludes) it is the second.
 *
 * The second waits for an RCU grace period, by membarrier(2), which takes 8 to 20 ms.  It also covers programs that
 * BPF_PROG_TEST_RUN runs. */
void oxdp_grace(void *aux);
void oxdp_grace_rcu(void *aux);

#endif /* core/kernel/grace.h */
