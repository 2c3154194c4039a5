/* SPDX-License-Identifier: Apache-2.0 */
/* The datapath type "xdp" for Open vSwitch. */
#ifndef DPIF_XDP_H
#define DPIF_XDP_H 1

/* The provider, in the form of lib/dpif-provider.h. */
extern const struct dpif_class dpif_xdp_class;

/* Registers 'dpif_xdp_class'.  Called before Open vSwitch's main(). */
void dpif_xdp_register(void);

/* leave.c: has the daemon end soon after a signal, whatever its threads wait
 * for.  Called when it has become a daemon: fork() drops hooks. */
void dpif_xdp_leave_init(void);

/* version.c: 'theirs', the text of Open vSwitch's version, with ours. */
const char *dpif_xdp_version_add(const char *theirs);

#endif /* ovs/provider/dpif_xdp.h */
