/* SPDX-License-Identifier: Apache-2.0 */
/* All locks of core/, in the order in which a thread may take them.  A thread takes those of ovs/ (ovs/base/locks.h)
 * before.
 *
 *   lock                    who takes it, and for what
 *   ----------------------  ----------------------------------------------------------------------
 *   progs->special.mutex    attaching; the thread that specialises programs (core/programs/specialise.h)
 *   progs->groups->mutex    output sets; the thread that makes maps for them (core/programs/group.c)
 *   ct->mutex               connections that leave, timeout policies, limits (core/ct/ct_private.h)
 *   umem->bind_lock         opening and closing sockets
 *   later.c: lock           jobs that wait for a thread (core/xsk/later.c)
 *   sock->tx_lock           sending through a socket
 *   umem->lock              the stack of free frames
 *
 * "make check" compiles core/ with clang, which refuses code that takes two of these in another order, or uses a member
 * without its lock.  As in ovs/, what is annotated are names for "the lock of the object in hand", which nothing
 * defines. */
#ifndef OXDP_LOCKS_H
#define OXDP_LOCKS_H 1

#ifdef __clang__
#define OXDP_LOCK_ATTRIBUTE(A) __attribute__((A))
#else
#define OXDP_LOCK_ATTRIBUTE(A)
#endif
#define OXDP_GUARDED_BY(LOCK) OXDP_LOCK_ATTRIBUTE(guarded_by(LOCK))
#define OXDP_REQUIRES(LOCK) OXDP_LOCK_ATTRIBUTE(exclusive_locks_required(LOCK))
#define OXDP_ACQUIRES(LOCK) OXDP_LOCK_ATTRIBUTE(exclusive_lock_function(LOCK))
#define OXDP_RELEASES(LOCK) OXDP_LOCK_ATTRIBUTE(unlock_function(LOCK))
#define OXDP_ACQ_AFTER(LOCK) OXDP_LOCK_ATTRIBUTE(acquired_after(LOCK))
#define OXDP_NO_LOCK_ANALYSIS OXDP_LOCK_ATTRIBUTE(no_thread_safety_analysis)

struct OXDP_LOCK_ATTRIBUTE(lockable) oxdp_lock {
    char nothing;
};

extern struct oxdp_lock oxdp_special_mutex;
extern struct oxdp_lock oxdp_groups_mutex OXDP_ACQ_AFTER(oxdp_special_mutex);
extern struct oxdp_lock oxdp_ct_mutex OXDP_ACQ_AFTER(oxdp_groups_mutex);
extern struct oxdp_lock oxdp_bind_lock OXDP_ACQ_AFTER(oxdp_ct_mutex);
extern struct oxdp_lock oxdp_later_lock OXDP_ACQ_AFTER(oxdp_bind_lock);
extern struct oxdp_lock oxdp_tx_lock OXDP_ACQ_AFTER(oxdp_later_lock);
extern struct oxdp_lock oxdp_umem_lock OXDP_ACQ_AFTER(oxdp_tx_lock);

#endif /* core/locks.h */
