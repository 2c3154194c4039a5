/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting until no program can hold what was unlinked from the tables. */
#ifndef OXDP_GRACE_H
#define OXDP_GRACE_H 1

/* Both return after every program run that had begun has ended, and have the type of oxdp_table_callbacks' 'grace'.
 *
 * The first is for programs that run on their hooks, and takes some tens of microseconds.  There programs run with
 * bottom halves disabled: a CPU that is idle or runs a thread runs no program.  The calling thread finds out which CPUs
 * are idle, interrupts the others to see whether each runs a thread (bpf/grace.bpf.c), and migrates to those that do
 * not, or that do not show it (x86 before Linux 6.11).  With PREEMPT_RT, or if its cpuset excludes a CPU, it calls the
 * second.
 *
 * The second waits for an RCU grace period, by membarrier(2), which takes 8 to 20 ms.  It also covers programs that
 * BPF_PROG_TEST_RUN runs. */
void oxdp_grace(void *aux);
void oxdp_grace_rcu(void *aux);

#endif /* core/kernel/grace.h */
