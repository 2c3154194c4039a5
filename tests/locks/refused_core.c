/* SPDX-License-Identifier: Apache-2.0 */
/* In core/: the free frames taken before the socket that sends. */
/* clang: mutex 'oxdp_tx_lock' must be acquired before 'oxdp_umem_lock' */
/* clang: reading variable 'down' requires holding mutex 'oxdp_tx_lock' */
#include "core/xsk/sock_private.h"
#include "core/xsk/umem_private.h"

bool out_of_order_in_core(struct oxdp_sock *sock);

bool out_of_order_in_core(struct oxdp_sock *sock)
{
    oxdp_lock_stack(sock->umem);
    oxdp_lock_tx(sock);
    oxdp_unlock_tx(sock);
    oxdp_unlock_stack(sock->umem);
    return sock->down;
}
