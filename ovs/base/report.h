/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of what the datapath does: JSON documents (openvswitch/json.h).
 *
 * Each room adds its part with these functions; provider/appctl.c prints the
 * documents as JSON, or as text made from them by provider/report_text.c.
 * docs/reference/xdp-appctl.md names the members. */
#ifndef DPIF_XDP_REPORT_H
#define DPIF_XDP_REPORT_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;
struct unixctl_conn;

/* Replies with 'report', which it takes, and the version: as a JSON value if
 * the client wants those (ovs-appctl --format), else printed as text, 'pretty'
 * in lines. */
void dpif_xdp_report_reply(struct unixctl_conn *, struct json *report,
                           bool pretty);

/* Puts member 'key' into object 'report'. */
void dpif_xdp_report_int(struct json *report, const char *key, uint64_t);
void dpif_xdp_report_bool(struct json *report, const char *key, bool);

/* The same for text; nothing if it is NULL. */
void dpif_xdp_report_text(struct json *report, const char *key,
                          const char *text);

/* The key for an enumeration's constant: its name in lower case.  The caller
 * frees it. */
char *dpif_xdp_report_key(const char *name);

/* Puts a number under dpif_xdp_report_key('name'). */
void dpif_xdp_report_enum(struct json *report, const char *name, uint64_t);

/* Puts a new object or array, and returns it.  'report' owns it. */
struct json *dpif_xdp_report_object(struct json *report, const char *key);
struct json *dpif_xdp_report_array(struct json *report, const char *key);

/* Adds a new object to 'array', and returns it.  'array' owns it. */
struct json *dpif_xdp_report_element(struct json *array);

/* Member 'key' of 'report': NULL if there is none. */
const struct json *dpif_xdp_report_get(const struct json *report,
                                       const char *key);

/* The number of elements of 'array', and element 'i'; none if it is NULL. */
size_t dpif_xdp_report_n(const struct json *array);
const struct json *dpif_xdp_report_at(const struct json *array, size_t i);

/* The same of a member that is a number, or 0; text, or NULL; or a boolean, or
 * false. */
uint64_t dpif_xdp_report_get_int(const struct json *report, const char *key);
const char *dpif_xdp_report_get_text(const struct json *report,
                                     const char *key);
bool dpif_xdp_report_get_bool(const struct json *report, const char *key);

#endif /* ovs/base/report.h */
