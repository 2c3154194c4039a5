/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/base/report.h"

#include <ctype.h>

#include "openvswitch/shash.h"
#include "ovs/base/compat.h"
#include "unixctl.h"
#include "util.h"

void
dpif_xdp_report_int(struct json *report, const char *key, uint64_t n)
{
    json_object_put(report, key, json_integer_create(MIN(n, INT64_MAX)));
}

void
dpif_xdp_report_bool(struct json *report, const char *key, bool value)
{
    json_object_put(report, key, json_boolean_create(value));
}

void
dpif_xdp_report_text(struct json *report, const char *key, const char *text)
{
    if (text) {
        json_object_put_string(report, key, text);
    }
}

char *
dpif_xdp_report_key(const char *name)
{
    char *key = xstrdup(name);

    for (char *p = key; *p; p++) {
        *p = tolower((unsigned char) *p);
    }
    return key;
}

void
dpif_xdp_report_enum(struct json *report, const char *name, uint64_t n)
{
    char *key = dpif_xdp_report_key(name);

    dpif_xdp_report_int(report, key, n);
    free(key);
}

struct json *
dpif_xdp_report_object(struct json *report, const char *key)
{
    struct json *object = json_object_create();

    json_object_put(report, key, object);
    return object;
}

struct json *
dpif_xdp_report_array(struct json *report, const char *key)
{
    struct json *array = json_array_create_empty();

    json_object_put(report, key, array);
    return array;
}

struct json *
dpif_xdp_report_element(struct json *array)
{
    struct json *object = json_object_create();

    json_array_add(array, object);
    return object;
}

const struct json *
dpif_xdp_report_get(const struct json *report, const char *key)
{
    return shash_find_data(json_object(report), key);
}

void
dpif_xdp_report_reply(struct unixctl_conn *conn, struct json *report,
                      bool pretty)
{
    dpif_xdp_report_text(report, "version", OXDP_VERSION);
    if (dpif_xdp_unixctl_wants_json(conn)) {
        dpif_xdp_unixctl_reply_json(conn, report);
    } else {
        char *text = json_to_string(report, JSSF_SORT
                                    | (pretty ? JSSF_PRETTY : 0));

        unixctl_command_reply(conn, text);
        free(text);
        json_destroy(report);
    }
}

size_t
dpif_xdp_report_n(const struct json *array)
{
    return array ? json_array_size(array) : 0;
}

const struct json *
dpif_xdp_report_at(const struct json *array, size_t i)
{
    return json_array_at(array, i);
}

uint64_t
dpif_xdp_report_get_int(const struct json *report, const char *key)
{
    const struct json *json = dpif_xdp_report_get(report, key);

    return json ? json_integer(json) : 0;
}

const char *
dpif_xdp_report_get_text(const struct json *report, const char *key)
{
    const struct json *json = dpif_xdp_report_get(report, key);

    return json ? json_string(json) : NULL;
}

bool
dpif_xdp_report_get_bool(const struct json *report, const char *key)
{
    const struct json *json = dpif_xdp_report_get(report, key);

    return json && json_boolean(json);
}
