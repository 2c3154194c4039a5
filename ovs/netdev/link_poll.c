/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/netdev/link_poll.h"

#include <linux/ethtool.h>
#include <linux/mii.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>

#include "socket-util.h"

static bool
ask_phy(const char *name, bool *up)
{
    struct ifreq ifr = { .ifr_flags = 0 };
    struct mii_ioctl_data *mii = (struct mii_ioctl_data *) &ifr.ifr_data;

    if (af_inet_ifreq_ioctl(name, &ifr, SIOCGMIIPHY, "SIOCGMIIPHY")) {
        return false;
    }
    mii->reg_num = MII_BMSR;
    if (af_inet_ifreq_ioctl(name, &ifr, SIOCGMIIREG, "SIOCGMIIREG")) {
        return false;
    }
    *up = (mii->val_out & BMSR_LSTATUS) != 0;
    return true;
}

static bool
ask_driver(const char *name, bool *up)
{
    struct ethtool_value link = { .cmd = ETHTOOL_GLINK };
    struct ifreq ifr = { .ifr_data = (void *) &link };

    if (af_inet_ifreq_ioctl(name, &ifr, SIOCETHTOOL, "ETHTOOL_GLINK")) {
        return false;
    }
    *up = link.data != 0;
    return true;
}

bool
dpif_xdp_link_is_up(const char *name)
{
    bool up;

    return (ask_phy(name, &up) || ask_driver(name, &up)) && up;
}
