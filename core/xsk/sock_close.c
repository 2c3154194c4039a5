/* SPDX-License-Identifier: Apache-2.0 */
/* Closing sockets in the background.
 *
 * The kernel waits for an RCU grace period for each AF_XDP descriptor that is closed (net/xdp/xsk.c,
 * xsk_unbind_dev): 10 to 20 ms, twice for a socket.  Who removes a thousand ports one by one would wait half
 * a minute; grace periods that are waited for at the same time pass together.  So a few threads close, made
 * when they are needed, and gone when nothing has come for a while. */
#include "core/xsk/sock_private.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define MAX_THREADS 32u
#define IDLE_SECONDS 2

struct job {
    struct job *next;
    struct oxdp_sock *sock;
    const struct oxdp_umem *umem;
    int ifindex;
    bool begun;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;       /* Protects what follows. */
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static struct job *jobs;                /* Waiting or under way. */
static struct job **last = &jobs;
static unsigned int n_threads, n_idle, n_waiting;

static bool start_thread(void);
static void *work(void *);
static struct job *take_job(void);
static void finish_job(struct job *job);

void oxdp_sock_close_later(struct oxdp_sock *sock)
{
    struct job *job = sock ? malloc(sizeof *job) : NULL;
    bool taken = false;

    if (job) {
        *job = (struct job) { .sock = sock, .umem = sock->umem, .ifindex = sock->ifindex };
        pthread_mutex_lock(&lock);
        taken = n_waiting < n_idle || (n_threads < MAX_THREADS && start_thread()) || n_threads;
        if (taken) {
            *last = job;
            last = &job->next;
            n_waiting++;
            pthread_cond_signal(&more);
        }
        pthread_mutex_unlock(&lock);
    }
    if (!taken) {
        free(job);
        oxdp_sock_close(sock);
    }
}

void oxdp_sock_wait_closed(const struct oxdp_umem *umem, int ifindex)
{
    const struct job *job;

    pthread_mutex_lock(&lock);
    do {
        for (job = jobs; job && (job->umem != umem || (ifindex && job->ifindex != ifindex)); job = job->next) {
            continue;
        }
    } while (job && !pthread_cond_wait(&done, &lock));
    pthread_mutex_unlock(&lock);
}

static bool start_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, work, NULL)) {
        return false;
    }
    pthread_detach(thread);
    n_threads++;
    return true;
}

static void *work(void *aux)
{
    struct job *job;

    pthread_mutex_lock(&lock);
    while ((job = take_job())) {
        pthread_mutex_unlock(&lock);
        oxdp_sock_close(job->sock);
        pthread_mutex_lock(&lock);
        finish_job(job);
    }
    n_threads--;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Waits for the next job; NULL if none comes. */
static struct job *take_job(void)
{
    struct timespec end;
    struct job *job;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += IDLE_SECONDS;
    n_idle++;
    while (!n_waiting) {
        if (pthread_cond_timedwait(&more, &lock, &end) == ETIMEDOUT && !n_waiting) {
            n_idle--;
            return NULL;
        }
    }
    n_idle--;
    for (job = jobs; job->begun; job = job->next) {
        continue;
    }
    job->begun = true;
    n_waiting--;
    return job;
}

static void finish_job(struct job *job)
{
    struct job **p = &jobs;

    while (*p != job) {
        p = &(*p)->next;
    }
    *p = job->next;
    if (!job->next) {
        last = p;
    }
    free(job);
    pthread_cond_broadcast(&done);
}
