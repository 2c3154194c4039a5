/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the kernel through netlink: one question, one answer. */
#ifndef OXDP_NETLINK_PRIVATE_H
#define OXDP_NETLINK_PRIVATE_H 1

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oxdp_nl_request {
    struct nlmsghdr header;     /* 'nlmsg_len' grows with what is added: NLMSG_HDRLEN at first. */
    uint8_t payload[512];
};

/* RTM_GETLINK answers with the statistics and the address family details of a device: a few kB. */
union oxdp_nl_reply {
    struct nlmsghdr header;
    uint8_t bytes[32768];
};

void oxdp_nl_add_payload(struct oxdp_nl_request *, const void *data, size_t len);
void oxdp_nl_add_attr(struct oxdp_nl_request *, uint16_t type, const void *data, size_t len);

/* Begins an attribute that holds others: those that are added until the end of it. */
struct rtattr *oxdp_nl_nest(struct oxdp_nl_request *, uint16_t type);
void oxdp_nl_end_nest(struct oxdp_nl_request *, struct rtattr *nest);

/* Sends 'request' as a message of 'type' and stores the one message that answers it, with NLM_F_ACK among its flags an
 * acknowledgement.  0, or the negative errno that the kernel answers. */
int oxdp_nl_transact(int protocol, struct oxdp_nl_request *, uint16_t type, union oxdp_nl_reply *);

/* Sends 'request' as a message of 'type' and calls 'each' for every message that answers it, until that returns false.
 * 0, or the negative errno that the kernel answers. */
int oxdp_nl_dump(int protocol, struct oxdp_nl_request *, uint16_t type,
                 bool (*each)(const struct nlmsghdr *, void *aux), void *aux);

/* The value of 'attr', of which at most 4 bytes are read. */
uint32_t oxdp_nl_u32(const struct rtattr *attr);

#endif /* core/kernel/netlink_private.h */
