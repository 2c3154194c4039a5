/* SPDX-License-Identifier: Apache-2.0 */
/* Receives from a device through a packet socket, where programs cannot.
 *
 * Open vSwitch's own class drops packets with GSO, which containers' TCP sends
 * unless their segmentation offload is off.  Here the kernel says for each
 * packet what its device would have to do (PACKET_VNET_HDR), and this file
 * does it: it segments, and completes checksums. */
#include <config.h>

#include "ovs/netdev/netdev_xdp_private.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <sys/socket.h>

#include "core/segment.h"
#include "dp-packet.h"
#include "netdev-provider.h"
#include "openvswitch/vlog.h"
#include "packets.h"

VLOG_DEFINE_THIS_MODULE(netdev_xdp_rxq);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 20);

#define ROOM (ETH_HEADER_LEN + 2 * VLAN_HEADER_LEN + 65536)
#define HEADROOM 128

/* A packet that is being cut. */
struct netdev_xdp_rxq {
    struct oxdp_segments segments;
    ovs_be16 tpid, tci;                 /* In VLAN acceleration, or 0. */
    uint8_t frame[ROOM];
};

int
netdev_xdp_rxq_construct(struct netdev_rxq *rxq)
{
    int error = netdev_linux_class.rxq_construct(rxq);
    int on = 1;

    if (!error && setsockopt(netdev_rxq_linux_cast(rxq)->fd, SOL_PACKET,
                             PACKET_VNET_HDR, &on, sizeof on)) {
        error = errno;
        netdev_linux_class.rxq_destruct(rxq);
    }
    if (!error) {
        netdev_xdp_cast(rxq->netdev)->rxq
            = xzalloc(sizeof(struct netdev_xdp_rxq));
    }
    return error;
}

void
netdev_xdp_rxq_destruct(struct netdev_rxq *rxq)
{
    free(netdev_xdp_cast(rxq->netdev)->rxq);
    netdev_xdp_cast(rxq->netdev)->rxq = NULL;
    netdev_linux_class.rxq_destruct(rxq);
}

/* Adds a packet of 'len' bytes to 'batch', and returns where they go. */
static void *
add_packet(size_t len, struct dp_packet_batch *batch)
{
    struct dp_packet *packet = dp_packet_new_with_headroom(len, HEADROOM);

    dp_packet_batch_add(batch, packet);
    return dp_packet_put_uninit(packet, len);
}

/* Puts the tag in VLAN acceleration into the last packet of 'batch'. */
static void
add_tag(const struct netdev_xdp_rxq *rxq, struct dp_packet_batch *batch)
{
    if (rxq->tci) {
        eth_push_vlan(batch->packets[batch->count - 1], rxq->tpid,
                      rxq->tci & ~htons(VLAN_CFI));
    }
}

/* Reads the tag that the kernel has taken out of the frame. */
static void
read_tag(struct netdev_xdp_rxq *rxq, struct msghdr *message)
{
    rxq->tci = 0;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg;
         cmsg = CMSG_NXTHDR(message, cmsg)) {
        struct tpacket_auxdata aux;

        if (cmsg->cmsg_level != SOL_PACKET
            || cmsg->cmsg_type != PACKET_AUXDATA
            || cmsg->cmsg_len < CMSG_LEN(sizeof aux)) {
            continue;
        }
        memcpy(&aux, CMSG_DATA(cmsg), sizeof aux);
        if (aux.tp_status & TP_STATUS_VLAN_VALID) {
            rxq->tci = htons(aux.tp_vlan_tci | VLAN_CFI);
            rxq->tpid = (aux.tp_status & TP_STATUS_VLAN_TPID_VALID
                         ? htons(aux.tp_vlan_tpid)
                         : htons(ETH_TYPE_VLAN_8021Q));
        }
    }
}

/* Receives a packet, and adds it to 'batch' unless it has to be cut. */
static int
receive(struct netdev_rxq *rxq_, struct netdev_xdp_rxq *rxq,
        struct dp_packet_batch *batch)
{
    union {
        struct cmsghdr cmsg;
        char buffer[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
    } control;
    struct virtio_net_hdr left;
    struct iovec iov[] = { { &left, sizeof left },
                           { rxq->frame, sizeof rxq->frame } };
    struct msghdr message = {
        .msg_iov = iov, .msg_iovlen = ARRAY_SIZE(iov),
        .msg_control = &control, .msg_controllen = sizeof control,
    };
    ssize_t len;

    do {
        len = recvmsg(netdev_rxq_linux_cast(rxq_)->fd, &message, MSG_TRUNC);
    } while (len < 0 && errno == EINTR);
    if (len < 0 && errno != EINVAL) {
        return errno;
    }

    /* EINVAL: segments of a kind that the kernel cannot describe. */
    len -= sizeof left;
    if (len < ETH_HEADER_LEN || message.msg_flags & MSG_TRUNC) {
        netdev_linux_cast(rxq_->netdev)->rx_dropped++;
        return 0;
    }
    read_tag(rxq, &message);
    if (left.gso_type == VIRTIO_NET_HDR_GSO_NONE) {
        memcpy(add_packet(len, batch), rxq->frame, len);
        add_tag(rxq, batch);
    } else if (!oxdp_segments_begin(&rxq->segments, rxq->frame, len,
                                    left.gso_size)) {
        VLOG_WARN_RL(&rl, "%s: dropped a packet of %"PRIuSIZE" bytes that its "
                     "sender left to the device to segment: it is neither TCP "
                     "nor UDP", netdev_rxq_get_name(rxq_), len);
        netdev_linux_cast(rxq_->netdev)->rx_dropped++;
    }
    return 0;
}

int
netdev_xdp_rxq_recv(struct netdev_rxq *rxq_, struct dp_packet_batch *batch,
                    int *qfill)
{
    struct netdev_xdp_rxq *rxq = netdev_xdp_cast(rxq_->netdev)->rxq;
    int error = 0;

    dp_packet_batch_init(batch);
    while (!error && dp_packet_batch_size(batch) < NETDEV_MAX_BURST) {
        size_t len = oxdp_segments_next_len(&rxq->segments);

        if (len) {
            oxdp_segments_next(&rxq->segments, add_packet(len, batch));
            add_tag(rxq, batch);
        } else {
            error = receive(rxq_, rxq, batch);
        }
    }
    if (qfill) {
        *qfill = -ENOTSUP;
    }
    return dp_packet_batch_is_empty(batch) ? error : 0;
}
