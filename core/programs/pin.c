/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/pin.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <ftw.h>
#include <linux/magic.h>
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

#include "core/error.h"
#include "core/kernel/clsact.h"

#define BPFFS "/sys/fs/bpf"
#define ROOT BPFFS "/ovs-xdp"
#define OLD "old"
/* Other processes lock a folder for an instant, to see whether it is in use; one that was killed, until the kernel has
 * closed what it had: with hundreds of ports on a busy machine that takes seconds. */
#define LOCK_TRIES 300
#define LOCK_PAUSE_MS 10

/* What a pin is; in the order in which a folder is emptied. */
enum pin_kind {
    PIN_LINK,                   /* XDP's, tcx's at both ways, and that of the device at which tcx's upcalls arrive. */
    PIN_FILTER,                 /* The program of a filter. */
    PIN_STATE,                  /* A map that may be adopted. */
    PIN_OTHER,                  /* What the others hold anyway. */
    PIN_WAY,                    /* The link of a device of ours by which the programs above send packets. */
    N_PIN_KINDS
};

/* By the name, or by its beginning up to '-'; any other is PIN_OTHER. */
static const struct {
    const char *name;
    enum pin_kind kind;
} pin_kinds[] = {
    { "link-", PIN_LINK },
    { "tcx-", PIN_LINK },
    { "out-", PIN_LINK },
    { "upcall", PIN_LINK },
    { "filter-", PIN_FILTER },
    { OXDP_PINS_STATE, PIN_STATE },
    { "detour-", PIN_WAY },
    { "order", PIN_WAY },
};

struct oxdp_pins {
    char path[PATH_MAX - NAME_MAX - 1];
    char parent[PATH_MAX / 2];
    int lock_fd;
    bool started;
};

static int mount_bpffs(char **ret_error);
static int make_folder(const char *path);
static void for_each_entry(const char *folder, void (*cb)(const char *path, void *aux), void *aux);
static int make_folders(struct oxdp_pins *, const char *name);
static int lock_folder(struct oxdp_pins *);
static void remove_dead(void);
static void move_to_old(struct oxdp_pins *);
static void remove_content(const char *path);
static bool is_dead(const char *path);
static enum pin_kind kind_of(const char *path);
static int ifindex_of_filter(const char *path);
static bool has_filter(const char *path);
static bool is_at_work(const char *path);
static void remove_pin(const char *path);
static void join(char path[PATH_MAX], const char *folder, const char *name);

int oxdp_pins_open(const char *name, struct oxdp_pins **ret_pins, char **ret_error)
{
    struct oxdp_pins *pins;
    int err = mount_bpffs(ret_error);

    if (err) {
        return err;
    }
    pins = calloc(1, sizeof *pins);
    if (!pins) {
        return oxdp_fail(-ENOMEM, ret_error, "not enough memory");
    }
    remove_dead();
    pins->lock_fd = -1;
    err = make_folders(pins, name);
    err = err ? err : lock_folder(pins);
    if (err) {
        oxdp_fail(err, ret_error,
                  err == -EWOULDBLOCK ? "%s is in use by another process%s" : "cannot make %s (%s)",
                  pins->path, err == -EWOULDBLOCK ? "" : strerror(-err));
        free(pins);
        return err == -EWOULDBLOCK ? -EBUSY : err;
    }
    *ret_pins = pins;
    return 0;
}

void oxdp_pins_start(struct oxdp_pins *pins)
{
    move_to_old(pins);
    pins->started = true;
}

void oxdp_pins_close(struct oxdp_pins *pins)
{
    if (!pins) {
        return;
    }
    if (pins->started) {
        oxdp_pins_forget_old(pins);
        remove_content(pins->path);
    }
    rmdir(pins->path);
    rmdir(pins->parent);
    rmdir(ROOT);
    close(pins->lock_fd);
    free(pins);
}

const char *oxdp_pins_folder(const struct oxdp_pins *pins)
{
    return pins ? pins->path : NULL;
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

int oxdp_pins_inherit(struct oxdp_pins *pins, const char *name)
{
    char old_folder[PATH_MAX], old[PATH_MAX], path[PATH_MAX];
    int fd;

    if (!pins) {
        return -ENOENT;
    }
    join(old_folder, pins->path, OLD);
    join(old, old_folder, name);
    fd = bpf_obj_get(old);
    if (fd >= 0) {
        join(path, pins->path, name);
        if (rename(old, path)) {
            int err = -errno;

            close(fd);
            return err;
        }
    }
    return fd;
}

int oxdp_pins_open_old(const struct oxdp_pins *pins, const char *name)
{
    char old[PATH_MAX], path[PATH_MAX];
    int fd;

    if (!pins) {
        return -ENOENT;
    }
    join(old, pins->path, OLD);
    join(path, old, name);
    fd = bpf_obj_get(path);
    if (fd < 0 && !pins->started) {
        join(path, pins->path, name);
        fd = bpf_obj_get(path);
    }
    return fd < 0 ? -errno : fd;
}

struct search {
    const char *prefix;
    bool found;
    char path[PATH_MAX];        /* Of one that was found. */
};

static void look_for_prefix(const char *path, void *search_)
{
    struct search *search = search_;

    if (!strncmp(strrchr(path, '/') + 1, search->prefix, strlen(search->prefix))) {
        search->found = true;
        snprintf(search->path, sizeof search->path, "%s", path);
    }
}

/* Where oxdp_pins_open_old() looks. */
static bool search_old(const struct oxdp_pins *pins, struct search *search)
{
    char old[PATH_MAX];

    if (pins) {
        join(old, pins->path, OLD);
        for_each_entry(old, look_for_prefix, search);
        if (!search->found && !pins->started) {
            for_each_entry(pins->path, look_for_prefix, search);
        }
    }
    return search->found;
}

int oxdp_pins_open_any_old(const struct oxdp_pins *pins, const char *prefix)
{
    struct search search = { .prefix = prefix };
    int fd = search_old(pins, &search) ? bpf_obj_get(search.path) : -1;

    return !search.found ? -ENOENT : fd < 0 ? -errno : fd;
}

bool oxdp_pins_has_old_state(const struct oxdp_pins *pins, const char *prefix)
{
    struct search search = { .prefix = prefix };

    return search_old(pins, &search);
}

bool oxdp_pins_has_old(const struct oxdp_pins *pins, const char *name)
{
    char old[PATH_MAX], path[PATH_MAX];

    if (!pins) {
        return false;
    }
    join(old, pins->path, OLD);
    join(path, old, name);
    return ifindex_of_filter(path) ? has_filter(path) : !access(path, F_OK);
}

void oxdp_pins_forget_old(struct oxdp_pins *pins)
{
    char old[PATH_MAX];

    if (pins) {
        join(old, pins->path, OLD);
        remove_content(old);
        rmdir(old);
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

        return oxdp_fail(err, ret_error, "cannot mount bpffs at " BPFFS " (%s)", strerror(-err));
    }
    return 0;
}

/* Of oxdp_pins_give(), which one thread calls: nftw() passes nothing on. */
static struct {
    uid_t uid;
    gid_t gid;
} given_to;

static int give(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    return lchown(path, given_to.uid, given_to.gid) ? -errno : 0;
}

int oxdp_pins_give(uid_t uid, gid_t gid, char **ret_error)
{
    struct stat bpffs;
    int err = mount_bpffs(ret_error);

    if (err) {
        return err;
    }
    given_to.uid = uid;
    given_to.gid = gid;
    err = make_folder(ROOT);
    err = err ? err : nftw(ROOT, give, 8, FTW_PHYS);
    err = err ? err : stat(BPFFS, &bpffs) ? -errno : 0;
    if (!err && !(bpffs.st_mode & S_IXOTH)) {
        err = chmod(BPFFS, (bpffs.st_mode | S_IXOTH) & 07777) ? -errno : 0;
    }
    return err ? oxdp_fail(err, ret_error, "cannot give " ROOT " to user %u (%s)", (unsigned int) uid, strerror(-err))
               : 0;
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

/* Another process may remove the folder as unused before it is locked: then it is made again. */
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

static enum pin_kind kind_of(const char *path)
{
    const char *name = strrchr(path, '/') + 1;

    for (size_t i = 0; i < sizeof pin_kinds / sizeof *pin_kinds; i++) {
        size_t len = strlen(pin_kinds[i].name);

        if (!strncmp(name, pin_kinds[i].name, len) && (name[len - 1] == '-' || !name[len])) {
            return pin_kinds[i].kind;
        }
    }
    return PIN_OTHER;
}

static bool is_link(const char *path)
{
    return kind_of(path) == PIN_LINK || kind_of(path) == PIN_WAY;
}

/* The device whose filter runs the program at 'path'; 0 if it is something else. */
static int ifindex_of_filter(const char *path)
{
    int ifindex;

    return sscanf(strrchr(path, '/') + 1, "filter-%d", &ifindex) == 1 ? ifindex : 0;
}

/* Whether the filter that ran the program at 'path' still does. */
static bool has_filter(const char *path)
{
    int fd = bpf_obj_get(path);
    bool has = fd >= 0 && oxdp_clsact_runs(ifindex_of_filter(path), fd);

    if (fd >= 0) {
        close(fd);
    }
    return has;
}

static void move_entry(const char *path, void *old)
{
    char to[PATH_MAX];

    join(to, old, strrchr(path, '/') + 1);
    switch (kind_of(path)) {
    case PIN_LINK:
    case PIN_FILTER:
    case PIN_WAY:
        if (is_at_work(to)) {
            remove_pin(path);
        } else {
            rename(path, to);
        }
        break;
    case PIN_STATE:
        if (!access(to, F_OK) || rename(path, to)) {
            unlink(path);
        }
        break;
    default:
        unlink(path);
    }
}

/* A link holds its program, and that its maps: only maps that may be adopted need pins of their own.  If the previous
 * instance ended early, the folder "old" has more from before that.  Of two links at one device, which there can be at
 * tcx, the older is the one that handles packets. */
static void move_to_old(struct oxdp_pins *pins)
{
    char old[PATH_MAX];

    join(old, pins->path, OLD);
    make_folder(old);
    for_each_entry(pins->path, move_entry, old);
    rmdir(old);                 /* If it is empty. */
}

/* A link that a dead process pinned has no other owner: detaching it takes effect at once.  So does removing its
 * filter, unless another program has taken that place. */
static void remove_pin(const char *path)
{
    if (is_link(path)) {
        int fd = bpf_obj_get(path);

        if (fd >= 0) {
            bpf_link_detach(fd);
            close(fd);
        }
    } else if (ifindex_of_filter(path) && has_filter(path)) {
        oxdp_clsact_detach(ifindex_of_filter(path));
    }
    unlink(path);
}

static void remove_if_kind(const char *path, void *kind)
{
    if (kind_of(path) == *(enum pin_kind *) kind) {
        remove_pin(path);
    }
}

static void remove_content(const char *path)
{
    for (enum pin_kind kind = 0; kind < N_PIN_KINDS; kind++) {
        for_each_entry(path, remove_if_kind, &kind);
    }
}

static void remove_if_dead(const char *path, void *aux)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        if (!flock(fd, LOCK_EX | LOCK_NB) && is_dead(path)) {
            char old[PATH_MAX];

            join(old, path, OLD);
            remove_content(old);
            rmdir(old);
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

/* Removes folders that no process uses and whose devices are all gone, as after a container was killed. */
static void remove_dead(void)
{
    for_each_entry(ROOT, look_into_namespace, NULL);
}

/* Whether there is a link or a filter at 'path' whose device exists. */
static bool is_at_work(const char *path)
{
    struct bpf_link_info info = { 0 };
    __u32 len = sizeof info;
    bool is = false;
    int fd;

    if (ifindex_of_filter(path)) {
        return has_filter(path);
    }
    fd = is_link(path) ? bpf_obj_get(path) : -1;
    if (fd >= 0) {
        is = bpf_obj_get_info_by_fd(fd, &info, &len) || info.xdp.ifindex;
        close(fd);
    }
    return is;
}

static void look_for_device(const char *path, void *alive)
{
    *(bool *) alive |= is_at_work(path);
}

static bool is_dead(const char *path)
{
    bool alive = false;
    char old[PATH_MAX];

    join(old, path, OLD);
    for_each_entry(path, look_for_device, &alive);
    for_each_entry(old, look_for_device, &alive);
    return !alive;
}

/* bpffs reserves names with dots. */
static void join(char path[PATH_MAX], const char *folder, const char *name)
{
    size_t len = snprintf(path, PATH_MAX, "%s/", folder);

    for (; *name && len < PATH_MAX - 1; name++) {
        path[len++] = *name == '.' ? '_' : *name;
    }
    path[len] = '\0';
}
