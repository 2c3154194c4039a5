/* SPDX-License-Identifier: Apache-2.0 */
#include "core/xsk/later.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "core/locks.h"

#define MAX_THREADS 32u
#define IDLE_SECONDS 2

struct job {
    struct job *next;
    void (*run)(void *arg);
    void *arg;
    const void *owner;
    int number;
    bool begun;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;       /* oxdp_later_lock. */
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static struct job *jobs OXDP_GUARDED_BY(oxdp_later_lock);       /* Waiting or under way. */
static struct job **last OXDP_GUARDED_BY(oxdp_later_lock) = &jobs;
static unsigned int n_threads OXDP_GUARDED_BY(oxdp_later_lock);
static unsigned int n_idle OXDP_GUARDED_BY(oxdp_later_lock);
static unsigned int n_waiting OXDP_GUARDED_BY(oxdp_later_lock);

static bool start_thread(void) OXDP_REQUIRES(oxdp_later_lock);
static void *work(void *);
static struct job *take_job(void) OXDP_REQUIRES(oxdp_later_lock);
static void finish_job(struct job *job) OXDP_REQUIRES(oxdp_later_lock);

static void lock_jobs(void)
    OXDP_ACQUIRES(oxdp_later_lock)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_lock(&lock);
}

static void unlock_jobs(void)
    OXDP_RELEASES(oxdp_later_lock)
    OXDP_NO_LOCK_ANALYSIS
{
    pthread_mutex_unlock(&lock);
}

void oxdp_later(void (*run)(void *), void *arg, const void *owner, int number)
{
    struct job *job = malloc(sizeof *job);
    bool taken = false;

    if (job) {
        *job = (struct job) { .run = run, .arg = arg, .owner = owner, .number = number };
        lock_jobs();
        taken = n_waiting < n_idle || (n_threads < MAX_THREADS && start_thread()) || n_threads;
        if (taken) {
            *last = job;
            last = &job->next;
            n_waiting++;
            pthread_cond_signal(&more);
        }
        unlock_jobs();
    }
    if (!taken) {
        free(job);
        run(arg);
    }
}

void oxdp_later_wait(const void *owner, int number)
{
    const struct job *job;

    lock_jobs();
    do {
        for (job = jobs; job && (job->owner != owner || (number && job->number != number)); job = job->next) {
            continue;
        }
    } while (job && !pthread_cond_wait(&done, &lock));
    unlock_jobs();
}

static bool start_thread(void)
    OXDP_REQUIRES(oxdp_later_lock)
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

    lock_jobs();
    while ((job = take_job())) {
        unlock_jobs();
        job->run(job->arg);
        lock_jobs();
        finish_job(job);
    }
    n_threads--;
    unlock_jobs();
    return NULL;
}

/* Waits for the next job; NULL if none comes. */
static struct job *take_job(void)
    OXDP_REQUIRES(oxdp_later_lock)
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
    OXDP_REQUIRES(oxdp_later_lock)
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
