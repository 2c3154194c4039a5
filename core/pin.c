/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pin.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define BPFFS "/sys/fs/bpf"
#define ROOT BPFFS "/ovs-xdp"
#define LINK_PREFIX "link-"
#define LOCK_TRIES 20           /* Others lock a folder for an instant, to see whether it is in use. */
#define LOCK_PAUSE_MS 10

struct oxdp_pins {
    struct oxdp_pins *next;     /* In 'all'. */
    char path[PATH_MAX - NAME_MAX - 1];
    char parent[PATH_MAX / 2];
    int lock_fd;
};

/* Of this process, removed when it exits. */
static struct oxdp_pins *all;
static pid_t owner;

static int mount_bpffs(char **ret_error);
static int make_folders(struct oxdp_pins *, const char *name);
static int lock_folder(struct oxdp_pins *);
static void remove_dead(void);
static void remove_content(const char *path);
static bool is_dead(const char *path);
static void remove_all(void);
static void join(char path[PATH_MAX], const char *folder, const char *name);
static int fail(int err, char **ret_error, const char *format, ...) __attribute__((format(printf, 3, 4)));

int oxdp_pins_open(const char *name, struct oxdp_pins **ret_pins, char **ret_error)
{
    struct oxdp_pins *pins;
    int err = mount_bpffs(ret_error);

    if (err) {
        return err;
    }
    pins = calloc(1, sizeof *pins);
    if (!pins) {
        return fail(-ENOMEM, ret_error, "not enough memory");
    }
    remove_dead();
    pins->lock_fd = -1;
    err = make_folders(pins, name);
    err = err ? err : lock_folder(pins);
    if (err) {
        fail(err, ret_error,
             err == -EWOULDBLOCK ? "%s is in use by another process%s" : "cannot make %s (%s)",
             pins->path, err == -EWOULDBLOCK ? "" : strerror(-err));
        free(pins);
        return err == -EWOULDBLOCK ? -EBUSY : err;
    }
    remove_content(pins->path);

    if (owner != getpid()) {
        owner = getpid();
        atexit(remove_all);
    }
    pins->next = all;
    all = pins;
    *ret_pins = pins;
    return 0;
}

void oxdp_pins_close(struct oxdp_pins *pins)
{
    if (!pins) {
        return;
    }
    for (struct oxdp_pins **p = &all; *p; p = &(*p)->next) {
        if (*p == pins) {
            *p = pins->next;
            break;
        }
    }
    remove_content(pins->path);
    rmdir(pins->path);
    rmdir(pins->parent);
    rmdir(ROOT);
    close(pins->lock_fd);
    free(pins);
}

int oxdp_pins_add(struct oxdp_pins *pins, const char *name, int fd)
{
    char path[PATH_MAX];

    if (!pins) {
        return 0;
    }
    join(path, pins->path, name);
    return bpf_obj_pin(fd, path) ? -errno : 0;
}

void oxdp_pins_remove(struct oxdp_pins *pins, const char *name)
{
    char path[PATH_MAX];

    if (pins) {
        join(path, pins->path, name);
        unlink(path);
    }
}

static int mount_bpffs(char **ret_error)
{
    struct statfs fs;

    if (!statfs(BPFFS, &fs) && (unsigned long) fs.f_type == BPF_FS_MAGIC) {
        return 0;
    }
    if (mount("bpf", BPFFS, "bpf", 0, "mode=0700")) {
        int err = -errno;

        return fail(err, ret_error, "cannot mount bpffs at " BPFFS " (%s)", strerror(-err));
    }
    return 0;
}

static int make_folder(const char *path)
{
    return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

static int make_folders(struct oxdp_pins *pins, const char *name)
{
    struct stat netns;
    char path[PATH_MAX];
    int err;

    if (stat("/proc/thread-self/ns/net", &netns)) {
        return -errno;
    }
    snprintf(pins->parent, sizeof pins->parent, ROOT "/%lu", (unsigned long) netns.st_ino);
    join(path, pins->parent, name);
    if (strlen(path) >= sizeof pins->path || strchr(name, '/')) {
        return -ENAMETOOLONG;
    }
    strcpy(pins->path, path);
    err = make_folder(ROOT);
    err = err ? err : make_folder(pins->parent);
    return err ? err : make_folder(pins->path);
}

/* The folder may go, as unused, before it is locked: then it is made again. */
static int lock_folder(struct oxdp_pins *pins)
{
    const struct timespec pause = { .tv_nsec = LOCK_PAUSE_MS * 1000000 };
    int err = 0;

    for (int i = 0; i < LOCK_TRIES; i++) {
        struct stat held, there;

        make_folder(ROOT);
        make_folder(pins->parent);
        make_folder(pins->path);
        pins->lock_fd = open(pins->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (pins->lock_fd >= 0 && !flock(pins->lock_fd, LOCK_EX | LOCK_NB) && !fstat(pins->lock_fd, &held)
            && !stat(pins->path, &there) && held.st_ino == there.st_ino) {
            return 0;
        }
        err = -errno;
        if (pins->lock_fd >= 0) {
            close(pins->lock_fd);
        }
        nanosleep(&pause, NULL);
    }
    return err ? err : -EAGAIN;
}

/* Calls 'cb' for each entry of 'folder' but "." and "..". */
static void for_each_entry(const char *folder, void (*cb)(const char *path, void *aux), void *aux)
{
    DIR *dir = opendir(folder);

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[PATH_MAX];

        if (entry->d_name[0] != '.') {
            join(path, folder, entry->d_name);
            cb(path, aux);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* A link that another process pinned has no other owner any more: detached, it leaves its device at once. */
static void remove_pin(const char *path, void *aux)
{
    if (!strncmp(strrchr(path, '/') + 1, LINK_PREFIX, strlen(LINK_PREFIX))) {
        int fd = bpf_obj_get(path);

        if (fd >= 0) {
            bpf_link_detach(fd);
            close(fd);
        }
    }
    unlink(path);
}

static void remove_content(const char *path)
{
    for_each_entry(path, remove_pin, NULL);
}

static void remove_if_dead(const char *path, void *aux)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        if (!flock(fd, LOCK_EX | LOCK_NB) && is_dead(path)) {
            remove_content(path);
            rmdir(path);
        }
        close(fd);
    }
}

static void look_into_namespace(const char *path, void *aux)
{
    for_each_entry(path, remove_if_dead, NULL);
    rmdir(path);
}

/* Removes folders that no process has and whose devices are all gone, as they are after a container was
 * killed. */
static void remove_dead(void)
{
    for_each_entry(ROOT, look_into_namespace, NULL);
}

static void look_for_device(const char *path, void *alive)
{
    struct bpf_link_info info = { 0 };
    __u32 len = sizeof info;
    int fd;

    if (strncmp(strrchr(path, '/') + 1, LINK_PREFIX, strlen(LINK_PREFIX))) {
        return;
    }
    fd = bpf_obj_get(path);
    if (fd >= 0) {
        if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.xdp.ifindex) {
            *(bool *) alive = true;
        }
        close(fd);
    }
}

static bool is_dead(const char *path)
{
    bool alive = false;

    for_each_entry(path, look_for_device, &alive);
    return !alive;
}

static void remove_all(void)
{
    while (owner == getpid() && all) {
        oxdp_pins_close(all);
    }
}

/* bpffs keeps names with dots for itself. */
static void join(char path[PATH_MAX], const char *folder, const char *name)
{
    size_t len = snprintf(path, PATH_MAX, "%s/", folder);

    for (; *name && len < PATH_MAX - 1; name++) {
        path[len++] = *name == '.' ? '_' : *name;
    }
    path[len] = '\0';
}

static int fail(int err, char **ret_error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (ret_error && vasprintf(ret_error, format, args) < 0) {
        *ret_error = NULL;
    }
    va_end(args);
    return err;
}
