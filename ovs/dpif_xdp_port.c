/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: adding, removing, finding, and following what happens to their
 * devices. */
#include <config.h>

#include "dpif_xdp_private.h"

#include <errno.h>

#include "core/redirect.h"
#include "dpif.h"
#include "dpif_xdp.h"
#include "hash.h"
#include "netdev-linux-private.h"
#include "netdev-provider.h"
#include "netdev-vport.h"
#include "netdev_xdp.h"
#include "odp-util.h"
#include "openvswitch/vlog.h"
#include "openvswitch/poll-loop.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port);

#define MIN_LEND 1
#define MAX_LEND 512
#define FEW_FRAMES 16                   /* Less than that is worth a word. */

static odp_port_t choose_port_no(const struct dpif_xdp_dp *,
                                 const char *devname);
static struct dpif_xdp_port *find_by_name(const struct dpif_xdp_dp *,
                                          const char *devname);
static int open_port(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
static int open_device(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
static int open_netdev(struct dpif_xdp_port *);
static void close_port(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
static void free_port(struct dpif_xdp_port *);
static void remove_port(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
static void follow_carrier(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);
static void follow_device(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dp->port_mutex);

static uint32_t
hash_port_no(odp_port_t port_no)
{
    return hash_int(odp_to_u32(port_no), 0);
}

/* The port 'port_no' of 'dp', or NULL.  Valid until the caller quiesces. */
struct dpif_xdp_port *
dpif_xdp_port_lookup(const struct dpif_xdp_dp *dp, odp_port_t port_no)
{
    struct dpif_xdp_port *port;

    CMAP_FOR_EACH_WITH_HASH (port, node, hash_port_no(port_no), &dp->ports) {
        if (port->port_no == port_no) {
            return port;
        }
    }
    return NULL;
}

int
dpif_xdp_port_add(struct dpif *dpif, struct netdev *netdev,
                  odp_port_t *port_nop)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    char namebuf[NETDEV_VPORT_NAME_BUFSIZE];
    const char *devname = netdev_vport_get_dpif_port(netdev, namebuf,
                                                     sizeof namebuf);
    int error = 0;

    ovs_mutex_lock(&dp->port_mutex);
    if (*port_nop == ODPP_NONE) {
        *port_nop = choose_port_no(dp, devname);
        if (*port_nop == ODPP_NONE) {
            error = EFBIG;
        }
    } else if (dpif_xdp_port_lookup(dp, *port_nop)) {
        error = EBUSY;
    }
    if (!error) {
        error = dpif_xdp_port_create(dp, devname, netdev_get_type(netdev),
                                     *port_nop);
    }
    ovs_mutex_unlock(&dp->port_mutex);
    return error;
}

/* Adds device 'devname', of netdev type 'type', as port 'port_no', which must
 * be free.  Returns 0 or a positive errno. */
int
dpif_xdp_port_create(struct dpif_xdp_dp *dp, const char *devname,
                     const char *type, odp_port_t port_no)
{
    struct dpif_xdp_port *port;
    enum netdev_flags flags;
    struct netdev *netdev;
    int error;

    if (find_by_name(dp, devname)) {
        return EEXIST;
    }
    error = netdev_open(devname, type, &netdev);
    if (error) {
        return error;
    }
    netdev_get_flags(netdev, &flags);
    if (flags & NETDEV_LOOPBACK) {
        VLOG_ERR("%s: cannot add a loopback device", devname);
        netdev_close(netdev);
        return EINVAL;
    }

    port = xzalloc(sizeof *port);
    port->port_no = port_no;
    port->netdev = netdev;
    port->type = xstrdup(type);
    port->is_device = dpif_xdp_netdev_is(netdev);
    port->can_send = netdev_n_txq(netdev) > 0;
    ovs_rwlock_init(&port->tx_rwlock);

    error = open_port(dp, port);
    if (error) {
        free_port(port);
        return error;
    }

    /* Changing flags makes the bridge look at its ports again, so not before
     * the port has proved to work: else it would be tried for ever. */
    error = netdev_turn_flags_on(netdev, NETDEV_PROMISC, &port->sf);
    if (error) {
        VLOG_ERR("%s: cannot set promiscuous mode (%s)", devname,
                 ovs_strerror(error));
        close_port(dp, port);
        free_port(port);
        return error;
    }

    cmap_insert(&dp->ports, &port->node, hash_port_no(port_no));
    seq_change(dp->port_seq);
    return 0;
}

int
dpif_xdp_port_del(struct dpif *dpif, odp_port_t port_no)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    struct dpif_xdp_port *port;

    if (port_no == ODPP_LOCAL) {
        return EINVAL;
    }
    ovs_mutex_lock(&dp->port_mutex);
    port = dpif_xdp_port_lookup(dp, port_no);
    if (port) {
        remove_port(dp, port);
    }
    ovs_mutex_unlock(&dp->port_mutex);

    if (!port) {
        return ENODEV;
    }
    /* The device must be free for other uses when this returns. */
    ovsrcu_synchronize();
    free_port(port);
    return 0;
}

/* Removes all ports, at the end of 'dp'. */
void
dpif_xdp_ports_destroy(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port;

    ovs_mutex_lock(&dp->port_mutex);
    CMAP_FOR_EACH (port, node, &dp->ports) {
        remove_port(dp, port);
        ovsrcu_postpone(free_port, port);
    }
    ovs_mutex_unlock(&dp->port_mutex);
}

/* Receives from the ports that no engine thread polls; follows devices that
 * went away, came back or were configured anew. */
void
dpif_xdp_ports_run(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port;

    ovs_mutex_lock(&dp->port_mutex);
    CMAP_FOR_EACH (port, node, &dp->ports) {
        dpif_xdp_poll_port(dp, port);
        if (port->is_device) {
            follow_device(dp, port);
        }
    }
    ovs_mutex_unlock(&dp->port_mutex);
}

void
dpif_xdp_ports_wait(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port;

    ovs_mutex_lock(&dp->port_mutex);
    CMAP_FOR_EACH (port, node, &dp->ports) {
        for (size_t i = 0; i < port->n_rxqs; i++) {
            if (port->rxqs[i].fd < 0) {
                netdev_rxq_wait(port->rxqs[i].rxq);
            }
        }
        if (port->is_device
            && port->change_seq != netdev_get_change_seq(port->netdev)) {
            poll_immediate_wake();
        }
    }
    ovs_mutex_unlock(&dp->port_mutex);
}

/* Interface:other_config: nothing in it concerns this datapath. */
int
dpif_xdp_port_set_config(struct dpif *dpif, odp_port_t port_no,
                         const struct smap *cfg OVS_UNUSED)
{
    return (dpif_xdp_port_lookup(dpif_xdp_dp_cast(dpif), port_no)
            ? 0 : ENODEV);
}

static void
answer_query(const struct dpif_xdp_port *port, struct dpif_port *answer)
{
    if (answer) {
        answer->name = xstrdup(netdev_get_name(port->netdev));
        answer->type = xstrdup(port->type);
        answer->port_no = port->port_no;
    }
}

int
dpif_xdp_port_query_by_number(const struct dpif *dpif, odp_port_t port_no,
                              struct dpif_port *answer)
{
    const struct dpif_xdp_port *port
        = dpif_xdp_port_lookup(dpif_xdp_dp_cast(dpif), port_no);

    if (!port) {
        return ENODEV;
    }
    answer_query(port, answer);
    return 0;
}

int
dpif_xdp_port_query_by_name(const struct dpif *dpif, const char *devname,
                            struct dpif_port *answer)
{
    const struct dpif_xdp_port *port
        = find_by_name(dpif_xdp_dp_cast(dpif), devname);

    if (!port) {
        return ENODEV;
    }
    answer_query(port, answer);
    return 0;
}

struct port_dump {
    struct cmap_position position;
    struct dpif_port port;              /* Given out last. */
};

int
dpif_xdp_port_dump_start(const struct dpif *dpif OVS_UNUSED, void **statep)
{
    *statep = xzalloc(sizeof(struct port_dump));
    return 0;
}

int
dpif_xdp_port_dump_next(const struct dpif *dpif, void *dump_,
                        struct dpif_port *answer)
{
    struct port_dump *dump = dump_;
    struct cmap_node *node
        = cmap_next_position(&dpif_xdp_dp_cast(dpif)->ports, &dump->position);

    if (!node) {
        return EOF;
    }
    dpif_port_destroy(&dump->port);
    answer_query(CONTAINER_OF(node, struct dpif_xdp_port, node), &dump->port);
    *answer = dump->port;
    return 0;
}

int
dpif_xdp_port_dump_done(const struct dpif *dpif OVS_UNUSED, void *dump_)
{
    struct port_dump *dump = dump_;

    dpif_port_destroy(&dump->port);
    free(dump);
    return 0;
}

int
dpif_xdp_port_poll(const struct dpif *dpif_, char **devnamep OVS_UNUSED)
{
    struct dpif_xdp *dpif = CONTAINER_OF(dpif_, struct dpif_xdp, dpif);
    uint64_t seq = seq_read(dpif->dp->port_seq);

    if (dpif->last_port_seq == seq) {
        return EAGAIN;
    }
    dpif->last_port_seq = seq;
    return ENOBUFS;
}

void
dpif_xdp_port_poll_wait(const struct dpif *dpif_)
{
    struct dpif_xdp *dpif = CONTAINER_OF(dpif_, struct dpif_xdp, dpif);

    seq_wait(dpif->dp->port_seq, dpif->last_port_seq);
}

/* A free port number, or ODPP_NONE. */
static odp_port_t
choose_port_no(const struct dpif_xdp_dp *dp, const char *devname)
{
    /* Under another class (Open vSwitch's unit tests) numbers follow names,
     * as in lib/dpif-netdev.c. */
    if (dp->class->type != dpif_xdp_type) {
        const char *digits = devname + strcspn(devname, "0123456789");
        int start = strncmp(devname, "br", 2) ? 0 : 100;

        if (*digits) {
            uint32_t number = start + strtol(digits, NULL, 10);

            if (number > 0 && number != odp_to_u32(ODPP_NONE)
                && !dpif_xdp_port_lookup(dp, u32_to_odp(number))) {
                return u32_to_odp(number);
            }
        }
    }

    for (uint32_t number = 1; number < DPIF_XDP_MAX_PORTS; number++) {
        if (!dpif_xdp_port_lookup(dp, u32_to_odp(number))) {
            return u32_to_odp(number);
        }
    }
    return ODPP_NONE;
}

static struct dpif_xdp_port *
find_by_name(const struct dpif_xdp_dp *dp, const char *devname)
{
    struct dpif_xdp_port *port;

    CMAP_FOR_EACH (port, node, &dp->ports) {
        if (!strcmp(netdev_get_name(port->netdev), devname)) {
            return port;
        }
    }
    return NULL;
}

static int
open_port(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    int error = (port->is_device ? open_device(dp, port)
                 : open_netdev(port));

    if (!error) {
        dpif_xdp_threads_add_port(dp, port);
        ovs_rwlock_wrlock(&port->tx_rwlock);
        port->open = true;
        ovs_rwlock_unlock(&port->tx_rwlock);
    }
    return error;
}

static void
close_port(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    ovs_rwlock_wrlock(&port->tx_rwlock);
    port->open = false;
    ovs_rwlock_unlock(&port->tx_rwlock);

    if (port->is_device && port->device.ifindex) {
        oxdp_progs_set_output(dp->progs, odp_to_u32(port->port_no), 0);
        ovs_mutex_lock(&dp->flow_mutex);
        dpif_xdp_fastpath_port_closed(dp, port->port_no);
        ovs_mutex_unlock(&dp->flow_mutex);
        dpif_xdp_netdev_count_stop(port->netdev);
        oxdp_progs_detach(dp->progs, port->device.ifindex);
    }
    dpif_xdp_threads_remove_port(port);
    for (size_t i = 0; i < port->n_rxqs; i++) {
        oxdp_sock_close(port->rxqs[i].sock);
        netdev_rxq_close(port->rxqs[i].rxq);
    }
    free(port->rxqs);
    port->rxqs = NULL;
    port->n_rxqs = 0;

    oxdp_offloads_restore(port->offloads);
    port->offloads = NULL;
    memset(&port->device, 0, sizeof port->device);
}

static void
free_port(struct dpif_xdp_port *port)
{
    netdev_restore_flags(port->sf);
    netdev_close(port->netdev);
    ovs_rwlock_destroy(&port->tx_rwlock);
    free(port->type);
    free(port);
}

/* Takes 'port' out of 'dp'.  Others may look at it until they quiesce. */
static void
remove_port(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    cmap_remove(&dp->ports, &port->node, hash_port_no(port->port_no));
    seq_change(dp->port_seq);
    close_port(dp, port);
}

/* Opens 'n' queues for a port without AF_XDP: taps, tunnels, test devices. */
static int
open_netdev(struct dpif_xdp_port *port)
{
    struct netdev *netdev = port->netdev;
    size_t n = netdev_n_rxq(netdev);

    port->rxqs = xcalloc(n, sizeof *port->rxqs);
    for (size_t i = 0; i < n; i++) {
        struct dpif_xdp_rxq *rxq = &port->rxqs[i];
        int error = netdev_rxq_open(netdev, &rxq->rxq, i);

        if (error) {
            VLOG_ERR("%s: cannot receive from the device (%s)",
                     netdev_get_name(netdev), ovs_strerror(error));
            while (i-- > 0) {
                netdev_rxq_close(port->rxqs[i].rxq);
            }
            free(port->rxqs);
            port->rxqs = NULL;
            return error;
        }
        rxq->port = port;
        rxq->fd = (is_netdev_linux_class(netdev_get_class(netdev))
                   ? netdev_rxq_linux_cast(rxq->rxq)->fd : -1);
    }
    port->n_rxqs = n;
    return 0;
}

/* The BPF programs and the packet memory, made for the first device. */
static int
prepare_kernel_side(struct dpif_xdp_dp *dp, char **errorp)
{
    if (!dp->packets) {
        int error = dpif_xdp_packets_create(dp->n_frames, &dp->packets);

        if (error == EPERM || error == EACCES) {
            *errorp = xasprintf("AF_XDP is not permitted: run as root, or "
                                "with CAP_NET_RAW");
            return error;
        } else if (error) {
            *errorp = xasprintf("cannot create a UMEM of %"PRIu32" frames "
                                "(%s): lower other_config:xdp-umem-frames or "
                                "raise the limit on locked memory",
                                dp->n_frames, ovs_strerror(error));
            return error;
        }
    }
    if (!dp->progs) {
        const struct oxdp_progs_config config = {
            .max_ports = DPIF_XDP_MAX_PORTS,
            .max_sockets = DPIF_XDP_MAX_SOCKETS,
            .n_flows = dp->n_fast_flows,
            .name = dp->name,
        };
        int error = -oxdp_progs_load(&config, &dp->progs, errorp);

        if (error) {
            return error;
        }
        if (oxdp_progs_unpinned(dp->progs)) {
            VLOG_INFO("%s: programs end with this process: %s", dp->name,
                      oxdp_progs_unpinned(dp->progs));
        }
        if (dp->n_fast_flows) {
            dp->fastpath = dpif_xdp_fastpath_create(dp->progs);
        }
    }
    return 0;
}

/* How many frames a new socket should keep waiting for packets.  A burst must
 * fit, but what is lent to a quiet socket does not come back: so each port
 * gets a share of what the ports before it left, less what sending needs. */
static uint32_t
frames_to_lend(const struct dpif_xdp_dp *dp, uint32_t n_queues)
{
    const struct oxdp_umem *umem = dpif_xdp_packets_umem(dp->packets);
    uint32_t n_free = oxdp_umem_n_free(umem);
    uint32_t reserve = oxdp_umem_n_frames(umem) / 4;
    uint32_t share = n_free > reserve ? (n_free - reserve) / 16 / n_queues : 0;

    if (share < FEW_FRAMES) {
        static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);

        VLOG_INFO_RL(&rl, "%s: few packet buffers are left for more ports, "
                     "bursts may be lost: raise other_config:xdp-umem-frames "
                     "(%"PRIu32" now) to 32 for each port", dp->name,
                     dp->n_frames);
    }
    return MAX(MIN_LEND, MIN(MAX_LEND, share));
}

/* Why the AF_XDP socket of 'queue' did not open, and what to do about it. */
static char *
socket_error(const struct dpif_xdp_port *port, enum oxdp_mode mode,
             uint32_t queue, int error)
{
    const char *name = netdev_get_name(port->netdev);

    switch (error) {
    case EOPNOTSUPP:
    case EINVAL:
        return (mode == OXDP_MODE_NATIVE_ZEROCOPY
                ? xasprintf("driver '%s' of %s has no zero-copy AF_XDP: set "
                            "options:xdp-mode to best-effort or native",
                            port->device.driver, name)
                : xasprintf("queue %"PRIu32" of %s takes no AF_XDP socket "
                            "(%s): is it an Ethernet device?", queue, name,
                            ovs_strerror(error)));
    case EBUSY:
        return xasprintf("queue %"PRIu32" of %s has an AF_XDP socket of "
                         "another program: stop that first", queue, name);
    case EPERM:
    case EACCES:
        return xasprintf("opening AF_XDP sockets is not permitted: run as "
                         "root, or with CAP_NET_RAW");
    case EAFNOSUPPORT:
        return xasprintf("this kernel has no AF_XDP sockets: it needs "
                         "CONFIG_XDP_SOCKETS");
    case ENOMEM:
    case ENOBUFS:
        return xasprintf("not enough memory for the AF_XDP socket of queue "
                         "%"PRIu32" of %s", queue, name);
    case EMFILE:
    case ENFILE:
        return xasprintf("no more file descriptors for the AF_XDP socket of "
                         "queue %"PRIu32" of %s: raise the limit (\"ulimit "
                         "-n\", LimitNOFILE of systemd)", queue, name);
    default:
        return xasprintf("cannot open an AF_XDP socket on queue %"PRIu32" of "
                         "%s (%s)", queue, name, ovs_strerror(error));
    }
}

/* Opens the sockets of 'port' and attaches the program, in one way. */
static int
try_mode(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
         enum oxdp_mode mode, uint32_t n_queues, char **errorp)
{
    struct oxdp_umem *umem = dpif_xdp_packets_umem(dp->packets);
    uint32_t fill = frames_to_lend(dp, n_queues);
    int fds[DPIF_XDP_MAX_QUEUES];
    uint32_t q;
    int error;

    for (q = 0; q < n_queues; q++) {
        error = oxdp_sock_open(umem, port->device.ifindex,
                               netdev_get_name(port->netdev), q,
                               mode == OXDP_MODE_NATIVE_ZEROCOPY, fill,
                               &port->rxqs[q].sock);
        if (error) {
            *errorp = socket_error(port, mode, q, -error);
            goto error;
        }
        port->rxqs[q].port = port;
        port->rxqs[q].fd = fds[q] = oxdp_sock_fd(port->rxqs[q].sock);
    }
    error = oxdp_progs_attach(dp->progs, port->device.ifindex,
                              mode != OXDP_MODE_GENERIC,
                              port->device.local_stack,
                              odp_to_u32(port->port_no), fds, n_queues,
                              errorp);
    if (!error) {
        port->n_rxqs = n_queues;
        return 0;
    }

error:
    while (q-- > 0) {
        oxdp_sock_close(port->rxqs[q].sock);
    }
    memset(port->rxqs, 0, n_queues * sizeof *port->rxqs);
    return -error;
}

static int
open_device(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->netdev);
    struct dpif_xdp_netdev_config config;
    enum oxdp_mode first, last, mode;
    char *text = NULL;
    uint32_t n_queues;
    int error;

    dpif_xdp_netdev_get_config(port->netdev, &config);
    port->config_seq = config.seq;
    port->change_seq = netdev_get_change_seq(port->netdev);

    error = prepare_kernel_side(dp, &text);
    if (error) {
        goto out;
    }
    error = -oxdp_device_get(name, &port->device);
    if (error) {
        text = xasprintf("cannot ask the kernel about %s: %s", name,
                         ovs_strerror(error));
        goto out;
    }
    if (port->device.mtu > OXDP_MAX_MTU) {
        text = xasprintf("MTU %"PRIu32" is too large for XDP: set it to at "
                         "most %u", port->device.mtu, OXDP_MAX_MTU);
        error = EINVAL;
        goto out;
    }
    port->local_stack = port->device.local_stack;
    oxdp_offloads_off(name, &port->offloads);

    n_queues = MIN(port->device.n_rx_queues, DPIF_XDP_MAX_QUEUES);
    port->rxqs = xcalloc(n_queues, sizeof *port->rxqs);
    first = (config.mode == OXDP_MODE_BEST_EFFORT
             ? OXDP_MODE_NATIVE_ZEROCOPY : config.mode);
    last = (config.mode == OXDP_MODE_BEST_EFFORT
            ? OXDP_MODE_GENERIC : config.mode);
    for (mode = first; mode <= last; mode++) {
        free(text);
        text = NULL;
        error = try_mode(dp, port, mode, n_queues, &text);
        if (error != EOPNOTSUPP && error != EINVAL) {
            break;
        }
    }
    if (!error) {
        port->redirects = false;
        port->native = mode != OXDP_MODE_GENERIC;
        port->shaped = config.shaped;
        dpif_xdp_netdev_count_start(port->netdev, dp->progs, &port->device);
        follow_carrier(dp, port);
        VLOG_INFO("%s: XDP mode %s, %"PRIu32" queue%s%s", name,
                  oxdp_mode_to_string(mode), n_queues,
                  n_queues == 1 ? "" : "s",
                  port->redirects ? "" : ", the engine sends");
    }

out:
    dpif_xdp_netdev_set_status(port->netdev, error ? "none"
                               : oxdp_mode_to_string(mode), "xdp", text);
    if (error) {
        VLOG_ERR("%s: cannot use the device with XDP: %s", name,
                 text ? text : ovs_strerror(error));
        oxdp_offloads_restore(port->offloads);
        port->offloads = NULL;
        free(port->rxqs);
        port->rxqs = NULL;
        memset(&port->device, 0, sizeof port->device);
    }
    free(text);
    return error;
}

/* Lets programs send to 'port' while its device has a carrier and takes what
 * is redirected to it, unless they would pass by its queueing discipline. */
static void
follow_carrier(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->netdev);
    uint32_t port_no = odp_to_u32(port->port_no);
    bool up = netdev_get_carrier(port->netdev);
    bool wanted = (up && !port->shaped
                   && (!port->redirects || oxdp_redirect_works(name)));
    int error;

    if (!port->native || wanted == port->redirects) {
        return;
    }
    if (!wanted) {
        oxdp_progs_set_output(dp->progs, port_no, 0);
        port->redirects = false;
        if (up) {
            ovs_mutex_lock(&dp->flow_mutex);
            dpif_xdp_fastpath_port_closed(dp, port->port_no);
            ovs_mutex_unlock(&dp->flow_mutex);
        }
        if (up && !port->shaped) {
            VLOG_INFO("%s: the device does not take redirected frames any "
                      "more, the engine sends what goes to this port", name);
        }
        return;
    }

    error = oxdp_redirect_prepare(name);
    if (!error) {
        error = oxdp_progs_set_output(dp->progs, port_no,
                                      port->device.ifindex);
    }
    if (error) {
        VLOG_DBG("%s: the engine sends what goes to this port, programs "
                 "cannot (%s)", name, ovs_strerror(-error));
        return;
    }
    port->redirects = true;
    ovs_mutex_lock(&dp->flow_mutex);
    dpif_xdp_fastpath_settle(dp);
    dpif_xdp_fastpath_port_opened(dp);
    ovs_mutex_unlock(&dp->flow_mutex);
}

/* Opens 'port' anew if its device is another one now, or if its options
 * changed; closes it if the device is gone. */
static void
follow_device(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    uint64_t change_seq = netdev_get_change_seq(port->netdev);
    struct dpif_xdp_netdev_config config;
    int ifindex;

    dpif_xdp_netdev_get_config(port->netdev, &config);
    if (change_seq == port->change_seq && config.seq == port->config_seq) {
        return;
    }
    port->change_seq = change_seq;

    ifindex = netdev_get_ifindex(port->netdev);
    if (ifindex == port->device.ifindex && config.seq == port->config_seq) {
        ovs_rwlock_wrlock(&port->tx_rwlock);
        port->shaped = config.shaped;
        ovs_rwlock_unlock(&port->tx_rwlock);
        follow_carrier(dp, port);
        return;
    }
    if (port->device.ifindex) {
        VLOG_INFO("%s: %s", netdev_get_name(port->netdev),
                  ifindex > 0 ? "device or options changed, opening again"
                  : "device is gone, waiting for it to come back");
        close_port(dp, port);
    }
    if (ifindex > 0) {
        open_port(dp, port);
    }
}
