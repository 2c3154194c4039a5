/* SPDX-License-Identifier: Apache-2.0 */
/* An abstract Unix socket is the lock: its name is unique in a network
 * namespace, and it goes with the process. */
#include <config.h>

#include "ovs/provider/sole.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "openvswitch/vlog.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_sole);

#define NAME "ovs-vswitchd-xdp"
#define WAIT_MS 3000                    /* For a process that is ending. */

static int fd = -1;
static bool waited;                     /* Another process had the lock. */
static unsigned int n_users;            /* Datapaths of this process. */

/* The name of the lock as an address.  Returns its length. */
static socklen_t
make_address(struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, NAME, strlen(NAME));
    return offsetof(struct sockaddr_un, sun_path) + 1 + strlen(NAME);
}

static int
try_lock(void)
{
    struct sockaddr_un address;
    socklen_t len = make_address(&address);
    int error = 0;

    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    if (bind(fd, (struct sockaddr *) &address, len) || listen(fd, 1)) {
        error = errno;
        close(fd);
        fd = -1;
    }
    return error;
}

/* The process that has the lock, or 0. */
static int
owner(void)
{
    struct ucred cred = { .pid = 0 };
    socklen_t cred_len = sizeof cred;
    struct sockaddr_un address;
    socklen_t len = make_address(&address);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (s >= 0) {
        if (!connect(s, (struct sockaddr *) &address, len)) {
            getsockopt(s, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len);
        }
        close(s);
    }
    return cred.pid;
}

int
dpif_xdp_sole_begin(void)
{
    long long int end = time_msec() + WAIT_MS;
    int error;

    if (n_users++) {
        return 0;
    }
    while ((error = try_lock()) == EADDRINUSE && !waited
           && time_msec() < end) {
        xnanosleep(10 * 1000 * 1000);
    }
    if (error == EADDRINUSE) {
        waited = true;
        VLOG_ERR("another ovs-vswitchd-xdp (pid %d) serves this network "
                 "namespace with datapaths of type xdp: stop that one, or "
                 "start this one in another namespace", owner());
        n_users--;
    } else if (error) {
        /* No reason not to serve. */
        VLOG_WARN("cannot see whether another ovs-vswitchd-xdp serves this "
                  "network namespace (%s)", ovs_strerror(error));
        error = 0;
    }
    return error;
}

void
dpif_xdp_sole_end(void)
{
    if (!--n_users && fd >= 0) {
        close(fd);
        fd = -1;
    }
}
