/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/veth.h"

#include <linux/if_link.h>
#include <linux/veth.h>
#include <string.h>
#include <sys/socket.h>

#include "core/kernel/netlink_private.h"

static void put_end(struct oxdp_nl_request *request, const char *name, uint32_t n_queues, uint32_t mtu)
{
    const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };

    oxdp_nl_add_payload(request, &info, sizeof info);
    oxdp_nl_add_attr(request, IFLA_IFNAME, name, strlen(name) + 1);
    oxdp_nl_add_attr(request, IFLA_NUM_TX_QUEUES, &n_queues, sizeof n_queues);
    oxdp_nl_add_attr(request, IFLA_NUM_RX_QUEUES, &n_queues, sizeof n_queues);
    oxdp_nl_add_attr(request, IFLA_MTU, &mtu, sizeof mtu);
}

int oxdp_veth_create(const char *name, const char *peer, uint32_t n_queues, uint32_t mtu)
{
    struct oxdp_nl_request request = {
        .header = { .nlmsg_len = NLMSG_HDRLEN, .nlmsg_flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL },
    };
    union oxdp_nl_reply reply;

    put_end(&request, name, n_queues, mtu);

    struct rtattr *info = oxdp_nl_nest(&request, IFLA_LINKINFO);

    oxdp_nl_add_attr(&request, IFLA_INFO_KIND, "veth", sizeof "veth");

    struct rtattr *data = oxdp_nl_nest(&request, IFLA_INFO_DATA);
    struct rtattr *other = oxdp_nl_nest(&request, VETH_INFO_PEER);

    put_end(&request, peer, n_queues, mtu);
    oxdp_nl_end_nest(&request, other);
    oxdp_nl_end_nest(&request, data);
    oxdp_nl_end_nest(&request, info);
    return oxdp_nl_transact(NETLINK_ROUTE, &request, RTM_NEWLINK, &reply);
}
