/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel/ethtool.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define MAX_BLOCKS 4        /* Of 32 features each: struct oxdp_features. */

/* Which features are on, by the kernel's numbering. */
struct states {
    struct ethtool_gfeatures head;
    struct ethtool_get_features_block blocks[MAX_BLOCKS];
};

static int ethtool(int fd, const char *ifname, void *command);
static int get_features(int fd, const char *ifname, struct ethtool_gstrings **ret_names, struct states *ret_states);
static int feature_names(int fd, const char *ifname, struct ethtool_gstrings **ret_names);
static int get_feature(int fd, const char *ifname, const char *feature, bool *ret_on, bool *ret_available);
static int set_features(int fd, const char *ifname, const struct oxdp_features *features, bool on);
static bool listed(const char *const names[], const uint8_t *name);

int oxdp_ethtool_driver(int fd, const char *ifname, char driver[32])
{
    struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
    int err = ethtool(fd, ifname, &info);

    snprintf(driver, 32, "%.31s", err ? "" : info.driver);
    return err;
}

int oxdp_ethtool_queues(int fd, const char *ifname, uint32_t *ret_rx, uint32_t *ret_tx)
{
    struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };
    int err = ethtool(fd, ifname, &channels);

    if (!err) {
        *ret_rx = channels.combined_count + channels.rx_count;
        *ret_tx = channels.combined_count + channels.tx_count;
    }
    return err;
}

int oxdp_ethtool_features_switch(int fd, const char *ifname, const char *const names[], bool on,
                                 struct oxdp_features *ret_changed)
{
    struct oxdp_features changed = { { 0 } };
    struct ethtool_gstrings *all;
    struct states get;
    int err = get_features(fd, ifname, &all, &get);

    if (err) {
        return err;
    }
    for (uint32_t i = 0; i < all->len && i < 32 * MAX_BLOCKS; i++) {
        const struct ethtool_get_features_block *block = &get.blocks[i / 32];
        uint32_t bit = 1u << i % 32;
        uint32_t differs = on ? ~block->active : block->requested | block->active;

        if (listed(names, all->data + i * ETH_GSTRING_LEN)
            && block->available & ~block->never_changed & differs & bit) {
            changed.bits[i / 32] |= bit;
        }
    }
    free(all);
    err = set_features(fd, ifname, &changed, on);
    if (!err) {
        *ret_changed = changed;
    }
    return err;
}

int oxdp_ethtool_feature_get(int fd, const char *ifname, const char *feature, bool *ret_on)
{
    bool available;

    return get_feature(fd, ifname, feature, ret_on, &available);
}

int oxdp_ethtool_feature_available(int fd, const char *ifname, const char *feature, bool *ret_available)
{
    bool on;

    return get_feature(fd, ifname, feature, &on, ret_available);
}

int oxdp_ethtool_features_restore(int fd, const char *ifname, const struct oxdp_features *changed, bool on)
{
    return set_features(fd, ifname, changed, !on);
}

static int get_feature(int fd, const char *ifname, const char *feature, bool *ret_on, bool *ret_available)
{
    const char *const names[] = { feature, NULL };
    struct ethtool_gstrings *all;
    struct states get;
    int err = get_features(fd, ifname, &all, &get);

    if (err) {
        return err;
    }
    err = -ENOENT;
    for (uint32_t i = 0; err && i < all->len && i < 32 * MAX_BLOCKS; i++) {
        if (listed(names, all->data + i * ETH_GSTRING_LEN)) {
            *ret_on = get.blocks[i / 32].active & 1u << i % 32;
            *ret_available = get.blocks[i / 32].available & 1u << i % 32;
            err = 0;
        }
    }
    free(all);
    return err;
}

static int set_features(int fd, const char *ifname, const struct oxdp_features *features, bool on)
{
    struct {
        struct ethtool_sfeatures head;
        struct ethtool_set_features_block blocks[MAX_BLOCKS];
    } set = { .head = { .cmd = ETHTOOL_SFEATURES } };

    /* The kernel takes only requests with exactly the blocks that it knows: ask how many. */
    struct ethtool_gfeatures ask = { .cmd = ETHTOOL_GFEATURES };
    static const struct oxdp_features none;
    int err = memcmp(features, &none, sizeof none) ? ethtool(fd, ifname, &ask) : 0;

    if (err || !ask.size) {
        return err;
    }
    set.head.size = ask.size < MAX_BLOCKS ? ask.size : MAX_BLOCKS;
    for (uint32_t i = 0; i < set.head.size; i++) {
        set.blocks[i].valid = features->bits[i];
        set.blocks[i].requested = on ? features->bits[i] : 0;
    }
    return ethtool(fd, ifname, &set);
}

/* All features' names, which the caller frees, and states. */
static int get_features(int fd, const char *ifname, struct ethtool_gstrings **ret_names, struct states *ret_states)
{
    int err = feature_names(fd, ifname, ret_names);

    if (err) {
        return err;
    }
    memset(ret_states, 0, sizeof *ret_states);
    ret_states->head.cmd = ETHTOOL_GFEATURES;
    ret_states->head.size = MAX_BLOCKS;
    err = ethtool(fd, ifname, ret_states);
    if (err) {
        free(*ret_names);
    }
    return err;
}

static int feature_names(int fd, const char *ifname, struct ethtool_gstrings **ret_names)
{
    struct {
        struct ethtool_sset_info head;
        uint32_t count;
    } sets = { .head = { .cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ULL << ETH_SS_FEATURES } };
    int err = ethtool(fd, ifname, &sets);

    if (err) {
        return err;
    }

    struct ethtool_gstrings *names = calloc(1, sizeof *names + (size_t) sets.count * ETH_GSTRING_LEN);

    if (!names) {
        return -ENOMEM;
    }
    names->cmd = ETHTOOL_GSTRINGS;
    names->string_set = ETH_SS_FEATURES;
    names->len = sets.count;
    err = ethtool(fd, ifname, names);
    if (err) {
        free(names);
        return err;
    }
    *ret_names = names;
    return 0;
}

static bool listed(const char *const names[], const uint8_t *name)
{
    for (; *names; names++) {
        if (!strncmp(*names, (const char *) name, ETH_GSTRING_LEN)) {
            return true;
        }
    }
    return false;
}

static int ethtool(int fd, const char *ifname, void *command)
{
    struct ifreq request = { .ifr_data = command };

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", ifname);
    return ioctl(fd, SIOCETHTOOL, &request) < 0 ? -errno : 0;
}
