/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DPIF_XDP_SOLE_H
#define DPIF_XDP_SOLE_H 1

/* Makes this process the only one that serves the network namespace with
 * datapaths of type xdp, until dpif_xdp_sole_end(): two would take the devices
 * of each other.  Waits a while for one that is about to end.  Returns 0, or
 * EADDRINUSE, having said which process it is. */
int dpif_xdp_sole_begin(void);
void dpif_xdp_sole_end(void);

#endif /* ovs/provider/sole.h */
