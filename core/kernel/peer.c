/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the peer of a veth, in whatever network namespace.
 *
 * The kernel names the peer's namespace by a number only, but entering a namespace takes a file descriptor.  So the
 * namespaces that can be found (mounted ones, those of processes) are opened and compared by that number.
 */
#include "core/kernel/peer.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>


struct search {
    int nsid;               /* Wanted. */
    ino_t *seen;            /* Namespaces that were compared. */
    size_t n_seen, n_allocated;
};

static int find_namespace(int nsid);
static int socket_in(int ns_fd);

int oxdp_peer_open(const struct oxdp_link *link, char peer_name[IF_NAMESIZE])
{
    struct ifreq request = { .ifr_ifindex = link->peer_ifindex };
    int fd;

    if (link->peer_nsid < 0) {
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        fd = fd < 0 ? -errno : fd;
    } else {
        int ns_fd = find_namespace(link->peer_nsid);

        if (ns_fd < 0) {
            return ns_fd;
        }
        fd = socket_in(ns_fd);
        close(ns_fd);
    }
    if (fd >= 0 && ioctl(fd, SIOCGIFNAME, &request) < 0) {
        int err = -errno;

        close(fd);
        return err;
    }
    if (fd >= 0) {
        snprintf(peer_name, IF_NAMESIZE, "%s", request.ifr_name);
    }
    return fd;
}

/* Remembers 'inode'; false if it was there already. */
static bool first_sight(struct search *search, ino_t inode)
{
    for (size_t i = 0; i < search->n_seen; i++) {
        if (search->seen[i] == inode) {
            return false;
        }
    }
    if (search->n_seen == search->n_allocated) {
        size_t n = search->n_allocated ? 2 * search->n_allocated : 64;
        ino_t *seen = reallocarray(search->seen, n, sizeof *seen);

        if (!seen) {
            return true;
        }
        search->seen = seen;
        search->n_allocated = n;
    }
    search->seen[search->n_seen++] = inode;
    return true;
}

/* Compares the namespace at 'path'.  Returns its descriptor if it is the wanted one, else -ENOENT. */
static int try_namespace(struct search *search, const char *path)
{
    struct stat st;
    int fd;

    if (stat(path, &st) || !first_sight(search, st.st_ino)) {
        return -ENOENT;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && oxdp_nsid_get(fd) != search->nsid) {
        close(fd);
        fd = -1;
    }
    return fd < 0 ? -ENOENT : fd;
}

/* Namespaces that a mount keeps alive, in this process's view of the file system: "net:[inode]" is the
 * root of an nsfs mount (proc(5), /proc/pid/mountinfo: the fourth field is the root, the fifth the mount
 * point). */
static int search_mounts(struct search *search)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0;
    int fd = -ENOENT;

    while (mounts && fd < 0 && getline(&line, &size, mounts) > 0) {
        char path[4096];

        if (sscanf(line, "%*s %*s %*s net:[%*[0-9]] %4095s", path) == 1) {
            fd = try_namespace(search, path);
        }
    }
    free(line);
    if (mounts) {
        fclose(mounts);
    }
    return fd;
}

static int search_folder(struct search *search, const char *folder)
{
    DIR *dir = opendir(folder);
    int fd = -ENOENT;

    for (const struct dirent *entry; dir && fd < 0 && (entry = readdir(dir)); ) {
        char path[512];

        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            fd = try_namespace(search, path);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return fd;
}

static int search_processes(struct search *search)
{
    DIR *proc = opendir("/proc");
    int fd = -ENOENT;

    for (const struct dirent *entry; proc && fd < 0 && (entry = readdir(proc)); ) {
        char path[300];

        if (isdigit((unsigned char) entry->d_name[0])) {
            snprintf(path, sizeof path, "/proc/%s/ns/net", entry->d_name);
            fd = try_namespace(search, path);
        }
    }
    if (proc) {
        closedir(proc);
    }
    return fd;
}

/* Returns a descriptor of the network namespace that this one numbers 'nsid', or -ENOENT.  Costs one look
 * for each process and one comparison for each namespace. */
static int find_namespace(int nsid)
{
    struct search search = { .nsid = nsid };
    int fd = search_mounts(&search);

    if (fd < 0) {
        fd = search_folder(&search, "/run/netns");
    }
    if (fd < 0) {
        fd = search_folder(&search, "/run/docker/netns");
    }
    if (fd < 0) {
        fd = search_processes(&search);
    }
    free(search.seen);
    return fd;
}

struct visit {
    int ns_fd;
    int fd;                 /* Result: a socket, or negative errno. */
};

static void *visit_namespace(void *visit_)
{
    struct visit *visit = visit_;

    if (setns(visit->ns_fd, CLONE_NEWNET)) {
        visit->fd = -errno;
    } else {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        visit->fd = fd < 0 ? -errno : fd;
    }
    return NULL;
}

/* A socket that lives in the namespace 'ns_fd', or a negative errno.  A thread of its own goes there, so
 * that no other thread is ever in a foreign namespace. */
static int socket_in(int ns_fd)
{
    struct visit visit = { .ns_fd = ns_fd };
    pthread_t thread;
    int err = pthread_create(&thread, NULL, visit_namespace, &visit);

    if (err) {
        return -err;
    }
    pthread_join(thread, NULL);
    return visit.fd;
}
