/* SPDX-License-Identifier: Apache-2.0 */
/* What ovs-xdp-check found out: a list of facts, each with a verdict; printed as text or JSON. */
#ifndef TOOLS_CHECK_FACT_H
#define TOOLS_CHECK_FACT_H 1

#include <stdbool.h>
#include <stddef.h>

enum oxdp_verdict {
    OXDP_OK,
    OXDP_WARNING,               /* It would work, but not as well as it could, or with an effect that is easily
                                 * missed. */
    OXDP_REFUSED,               /* OVS-XDP would refuse it. */
};

#define OXDP_HOST "host"        /* What a fact is about, if not a device. */

/* Adds a fact about 'about' (OXDP_HOST or the name of a device): 'name' is a word for scripts, 'format' gives a
 * sentence, 'todo' the command or the sentence that says what to do, NULL if there is nothing. */
void oxdp_fact(enum oxdp_verdict, const char *about, const char *name, const char *todo, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* For a child process: facts are written to 'fd' from now on, where the parent reads them. */
void oxdp_facts_send_to(int fd);

/* Adds what a child writes to 'fd', until it closes that. */
void oxdp_facts_receive(int fd);

/* Prints all facts and returns how many have the verdict OXDP_REFUSED. */
unsigned int oxdp_facts_print(bool json);

#endif /* tools/check/fact.h */
