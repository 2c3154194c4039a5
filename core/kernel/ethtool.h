/* SPDX-License-Identifier: Apache-2.0 */
/* Device settings through the ethtool interface (linux/ethtool.h, SIOCETHTOOL).
 *
 * 'fd' is any socket of the network namespace in which device 'ifname' lives.
 */
#ifndef OXDP_ETHTOOL_H
#define OXDP_ETHTOOL_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Name of the device's driver, "" if unknown.  0, or negative errno. */
int oxdp_ethtool_driver(int fd, const char *ifname, char driver[32]);

/* Queues in use.  0, or negative errno: -EOPNOTSUPP if the driver does not say. */
int oxdp_ethtool_queues(int fd, const char *ifname, uint32_t *ret_rx, uint32_t *ret_tx);

/* Work that a sender leaves to its device: without these the kernel sends whole frames. */
#define OXDP_OFFLOADS_TO_FINISH                                                               \
    "tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6", "tx-checksum-fcoe-crc", \
        "tx-checksum-sctp", "tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"

/* A set of features of one device, by the device's own numbering (at most 128 of them; Linux 6.18 has 64). */
struct oxdp_features {
    uint32_t bits[4];
};

/* Turns those of the features 'names' (ethtool -k's names, NULL at the end) 'on' or off that are not so
 * and can be changed, and stores which in '*ret_changed'.  0, or negative errno. */
int oxdp_ethtool_features_switch(int fd, const char *ifname, const char *const names[], bool on,
                                 struct oxdp_features *ret_changed);

/* Whether feature 'feature' (ethtool -k's name) is on.  0, or negative errno: -ENOENT if there is no such
 * feature. */
int oxdp_ethtool_feature_get(int fd, const char *ifname, const char *feature, bool *ret_on);

/* Whether feature 'feature' could be turned on.  0, or negative errno: -ENOENT if there is no such feature. */
int oxdp_ethtool_feature_available(int fd, const char *ifname, const char *feature, bool *ret_available);

/* Undoes what oxdp_ethtool_features_switch() changed with the same 'on'.  0, or negative errno. */
int oxdp_ethtool_features_restore(int fd, const char *ifname, const struct oxdp_features *changed, bool on);

#endif /* core/kernel/ethtool.h */
