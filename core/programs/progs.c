/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/progs.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cpu.h"
#include "core/error.h"
#include "core/kernel/libbpf_log.h"
#include "core/privilege.h"
#include "core/programs/attachment.h"
#include "core/programs/before.h"
#include "core/programs/group_private.h"
#include "core/programs/link.h"
#include "core/programs/maps.h"
#include "core/programs/pin.h"
#include "core/programs/program.h"
#include "core/programs/progs_struct.h"
#include "core/programs/specialise.h"
#include "core/programs/state.h"
#include "core/programs/tcx.h"
#include "core/programs/tcx_private.h"
#include "core/programs/trace.h"
#include "core/programs/track.h"

static int set_limits(struct oxdp_progs *, const struct oxdp_progs_config *);
static int pin(struct oxdp_progs *);

int oxdp_progs_load(const struct oxdp_progs_config *config, struct oxdp_progs **ret_progs, char **ret_error)
{
    struct oxdp_progs *progs = calloc(1, sizeof *progs);
    int err = progs ? set_limits(progs, config) : -ENOMEM;

    if (err) {
        oxdp_progs_unload(progs);
        return oxdp_fail(err, ret_error, "not enough memory to load the XDP program");
    }

    oxdp_libbpf_listen();
    if (config->name) {
        oxdp_pins_open(config->name, &progs->pins, &progs->unpinned);
    }
    err = oxdp_maps_create(progs, config);

    const char *heard = oxdp_libbpf_heard();
    char advice[OXDP_PRIVILEGE_ADVICE];

    if (err == -EPERM) {
        oxdp_fail(err, ret_error, "cannot create the datapath's maps (%s): %s", strerror(-err),
                  oxdp_privilege_advice(advice));
    } else if (err) {
        oxdp_fail(err, ret_error, "cannot create the datapath's maps (%s)%s%s", strerror(-err),
                  heard[0] ? "; libbpf says: " : "", heard);
    } else {
        err = oxdp_special_start(progs) || oxdp_groups_start(progs)
            ? oxdp_fail(-EAGAIN, ret_error, "cannot start a thread to load programs") : 0;
        if (!err && config->before_load && config->n_flows) {
            config->before_load(config->aux, progs);
        }
        err = err ? err : oxdp_programs_init(progs, ret_error);
    }
    if (err) {
        oxdp_progs_unload(progs);
        return err;
    }
    if (progs->pins && !pin(progs)) {
        oxdp_before_open(progs);
        progs->restart_text = oxdp_state_text(progs);
    }
    *ret_progs = progs;
    return 0;
}

void oxdp_progs_unload(struct oxdp_progs *progs)
{
    if (!progs) {
        return;
    }
    oxdp_trace_stop(progs);
    oxdp_track_stop(progs);
    oxdp_special_stop(progs);
    oxdp_groups_stop(progs);
    for (uint32_t i = 0; progs->attachments && i < progs->max_ports; i++) {
        if (progs->attachments[i].ifindex) {
            oxdp_progs_detach(progs, progs->attachments[i].ifindex);
        }
    }
    oxdp_before_close(progs);
    oxdp_tcx_close(progs);
    oxdp_pins_close(progs->pins);
    free(progs->unpinned);
    free(progs->restart_text);
    free(progs->bare);
    oxdp_programs_free(progs);
    oxdp_maps_destroy(progs);
    free(progs->direct);
    free(progs->attachments);
    free(progs->used);
    free(progs->socket_used);
    free(progs->can_output);
    free(progs->absent);
    free(progs->sends_buffers);
    free(progs);
}

const char *oxdp_progs_pinned(const struct oxdp_progs *progs)
{
    return oxdp_pins_folder(progs->pins);
}

const char *oxdp_progs_unpinned(const struct oxdp_progs *progs)
{
    return progs->unpinned;
}

const char *oxdp_progs_restart_text(const struct oxdp_progs *progs)
{
    return progs->restart_text;
}

struct oxdp_table *oxdp_progs_table(const struct oxdp_progs *progs)
{
    return progs->table;
}

static int set_limits(struct oxdp_progs *progs, const struct oxdp_progs_config *config)
{
    progs->max_ports = config->max_ports;
    progs->max_sockets = config->max_sockets;
    progs->n_cpu_ids = oxdp_n_cpu_ids();
    progs->n_slots = BPF_COUNTER_SLOT_NO_PORT + 1;
    progs->n_direct = 64;
    while (progs->n_direct < 2 * progs->max_ports) {
        progs->n_direct *= 2;
    }
    progs->direct = calloc(progs->n_direct, sizeof *progs->direct);
    progs->attachments = calloc(progs->max_ports, sizeof *progs->attachments);
    progs->used = calloc(progs->max_ports, sizeof *progs->used);
    progs->socket_used = calloc(progs->max_sockets, sizeof *progs->socket_used);
    progs->can_output = calloc(progs->max_ports, sizeof *progs->can_output);
    progs->absent = calloc(progs->max_ports, sizeof *progs->absent);
    progs->sends_buffers = calloc(progs->max_ports, sizeof *progs->sends_buffers);
    return progs->direct && progs->attachments && progs->used && progs->socket_used && progs->can_output
        && progs->absent && progs->sends_buffers ? 0 : -ENOMEM;
}

/* From here on the folder of pins is ours.  Pins the program and the maps; links follow as they are made or taken
 * over. */
static int pin(struct oxdp_progs *progs)
{
    int err;

    oxdp_pins_start(progs->pins);
    err = oxdp_pins_add(progs->pins, "xdp", progs->programs->fd);
    err = err ? err : oxdp_maps_pin(progs);
    err = err ? err : oxdp_state_pin(progs);
    if (err) {
        oxdp_pins_close(progs->pins);
        progs->pins = NULL;
        oxdp_fail(0, &progs->unpinned, "cannot pin programs and maps (%s)", strerror(-err));
    }
    return err;
}

/* What a previous instance left, from when there was a bpffs, this one did not take over. */
int oxdp_progs_pin(struct oxdp_progs *progs, const char *name)
{
    int err = 0;

    free(progs->unpinned);
    progs->unpinned = NULL;
    oxdp_special_begin_attach(progs, 0);
    err = oxdp_pins_open(name, &progs->pins, &progs->unpinned);
    err = err ? err : pin(progs);
    if (!err) {
        oxdp_pins_forget_old(progs->pins);
        for (uint32_t i = 0; i < progs->max_ports; i++) {
            oxdp_link_pin(progs, &progs->attachments[i]);
            oxdp_tcx_pin(progs, &progs->attachments[i]);
        }
        oxdp_tcx_pin_upcall(progs);
    }
    oxdp_special_end_attach(progs);
    return err;
}
