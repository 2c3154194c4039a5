/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/capture/tcpdump.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAGIC_NANOSECONDS 0xa1b23c4du
#define LINKTYPE_ETHERNET 1
#define MAX_FILTER 4096                 /* BPF_MAXINSNS. */
#define PIPE_BYTES (1 << 20)

struct file_header {
    uint32_t magic;
    uint16_t major, minor;
    uint32_t zone, accuracy, snaplen, link_type;
};

/* Starts 'argv' with a pipe for its standard input ('input') or output; our end is ret_child->fd. */
static int start(char *const argv[], bool input, struct oxdp_child *ret_child)
{
    int ends[2];
    pid_t pid;

    *ret_child = (struct oxdp_child) { .fd = -1, .room = malloc(OXDP_PCAP_ROOM) };
    if (!ret_child->room) {
        return -ENOMEM;
    }
    if (pipe2(ends, O_CLOEXEC)) {
        return -errno;
    }
    pid = fork();
    if (!pid) {
        /* The child ignores Ctrl-C: the parent stops it. */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        setpgid(0, 0);
        dup2(ends[!input], !input);
        execvp(argv[0], argv);
        fprintf(stderr, "ovs-xdp-tcpdump: %s: %s; is it installed?\n", argv[0], strerror(errno));
        _exit(127);
    }
    close(ends[!input]);
    if (pid < 0) {
        close(ends[input]);
        return -errno;
    }
    ret_child->pid = pid;
    ret_child->fd = ends[input];
    fcntl(ret_child->fd, F_SETPIPE_SZ, PIPE_BYTES);
    return 0;
}

void oxdp_child_end(struct oxdp_child *child, int signal)
{
    if (child->pid) {
        if (signal) {
            kill(child->pid, signal);
        }
        close(child->fd);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
            continue;
        }
    }
    free(child->room);
    *child = (struct oxdp_child) { .fd = -1 };
}

int oxdp_tcpdump_compile(const char *expression, struct sock_filter **ret_filter)
{
    char *const argv[] = { "tcpdump", "-y", "EN10MB", "-s", "65535", "-ddd", "--", (char *) expression, NULL };
    struct sock_filter *filter = NULL;
    struct oxdp_child child;
    unsigned int n = 0, i = 0;
    FILE *stream;

    if (start(argv, false, &child)) {
        perror("ovs-xdp-tcpdump");
        return -1;
    }
    stream = fdopen(child.fd, "r");
    if (stream && fscanf(stream, "%u", &n) == 1 && n <= MAX_FILTER) {
        filter = calloc(n, sizeof *filter);
        for (i = 0; filter && i < n; i++) {
            unsigned int code, jt, jf, k;

            if (fscanf(stream, "%u %u %u %u", &code, &jt, &jf, &k) != 4) {
                break;
            }
            filter[i] = (struct sock_filter) { code, jt, jf, k };
        }
    }
    child.fd = dup(child.fd);
    fclose(stream);
    oxdp_child_end(&child, 0);
    if (!filter || i < n) {
        free(filter);
        return -1;
    }
    *ret_filter = filter;
    return n;
}

int oxdp_tcpdump_capture(const char *device, const char *direction, uint32_t snaplen, const char *expression,
                         struct oxdp_child *ret_child)
{
    char bytes[16];
    char *const argv[] = {
        "tcpdump",
        "-i",
        (char *) device,
        "-Q",
        (char *) direction,
        "-s",
        bytes,
        "-p",
        "-n",
        "-q",
        "--immediate-mode",
        "-U",
        "--time-stamp-precision=nano",
        "-w",
        "-",
        "--",
        (char *) expression,
        NULL,
    };
    int errors = open("/dev/null", O_WRONLY | O_CLOEXEC), saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    int err;

    /* tcpdump's own messages ("listening on ...") are not shown. */
    snprintf(bytes, sizeof bytes, "%u", snaplen);
    dup2(errors, STDERR_FILENO);
    err = start(argv, false, ret_child);
    dup2(saved, STDERR_FILENO);
    close(errors);
    close(saved);
    if (!err) {
        fcntl(ret_child->fd, F_SETFL, O_NONBLOCK);
    }
    return err;
}

int oxdp_tcpdump_print(char *const flags[], struct oxdp_child *ret_child)
{
    char *argv[64] = { "tcpdump", "-r", "-", "-l" };
    int n = 4;

    while (*flags && n < 63) {
        argv[n++] = *flags++;
    }
    return start(argv, true, ret_child);
}

bool oxdp_child_read(struct oxdp_child *child,
                     void (*each)(const struct oxdp_pcap_packet *, const void *data, void *aux), void *aux)
{
    ssize_t got = read(child->fd, child->room + child->n, OXDP_PCAP_ROOM - child->n);
    size_t at = 0;

    if (got < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    child->n += got;
    if (!child->begun && child->n >= sizeof(struct file_header)) {
        at = sizeof(struct file_header);
        child->begun = true;
    }
    while (child->begun && child->n - at >= sizeof(struct oxdp_pcap_packet)) {
        struct oxdp_pcap_packet packet;

        memcpy(&packet, child->room + at, sizeof packet);
        if (packet.captured > OXDP_PCAP_ROOM - sizeof packet) {
            return false;
        }
        if (child->n - at - sizeof packet < packet.captured) {
            break;
        }
        each(&packet, child->room + at + sizeof packet, aux);
        at += sizeof packet + packet.captured;
    }
    memmove(child->room, child->room + at, child->n - at);
    child->n -= at;
    return got > 0;
}

bool oxdp_pcap_begin(FILE *file, uint32_t snaplen)
{
    const struct file_header header = {
        .magic = MAGIC_NANOSECONDS, .major = 2, .minor = 4, .snaplen = snaplen, .link_type = LINKTYPE_ETHERNET,
    };

    return fwrite(&header, sizeof header, 1, file) == 1 && !fflush(file);
}

bool oxdp_pcap_write(FILE *file, const struct oxdp_pcap_packet *packet, const void *data)
{
    return fwrite(packet, sizeof *packet, 1, file) == 1 && fwrite(data, 1, packet->captured, file) == packet->captured;
}
