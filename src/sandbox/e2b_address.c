/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_files_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "sandbox/e2b_entries_internal.h"
#include "sandbox/e2b_wire_internal.h"

/* A path, each byte as %XX, and what stands around it. */
#define MAX_QUERY_BYTES (3 * E2B_MAX_PATH_BYTES + 256)

/* "v1_" and 43 digits. */
#define MAX_SIGNATURE_BYTES ((size_t)64)

/* The daemon has no user of its own choice below 0.4.0. */
#define USER "user"

void
e2b_file_add_query(struct sbuf *sb, const struct e2b_site *site,
                   const char *path)
{
    sbuf_init(sb, MAX_QUERY_BYTES);
    sbuf_add_str(sb, "/files?path=");
    e2b_add_escaped(sb, path);
    if (e2b_site_names_user(site)) {
        sbuf_add_str(sb, "&username=" USER);
    }
    assert(sbuf_ok(sb));
}

/* Without padding. */
static void
add_base64(struct sbuf *sb, const unsigned char *bytes, size_t len)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        unsigned bits = (unsigned)bytes[i] << 16;

        bits |= n > 1 ? (unsigned)bytes[i + 1] << 8 : 0;
        bits |= n > 2 ? bytes[i + 2] : 0;
        for (size_t k = 0; k <= n; k++) {
            sbuf_add_char(sb, digits[bits >> (18 - 6 * k) & 63]);
        }
    }
}

/* Of the parts of the address as they are in it. */
static void
add_signature(struct sbuf *sb, const struct e2b_site *site, const char *path,
              bool writes, int64_t expires_s)
{
    const char *user = e2b_site_names_user(site) ? USER : "";
    AUTO_FREE char *before =
        xasprintf("%s:%s:%s:", path, writes ? "write" : "read", user);
    AUTO_FREE char *after =
        expires_s > 0 ? xasprintf(":%" PRId64, expires_s) : xstrdup("");
    unsigned char sum[HASH_BYTES];
    struct hash h;

    hash_init(&h);
    hash_add(&h, before, strlen(before));
    secret_add_to_hash(site->envd_token, &h);
    hash_add(&h, after, strlen(after));
    hash_end(&h, sum);
    sbuf_add_str(sb, "v1_");
    add_base64(sb, sum, sizeof(sum));
}

char *
e2b_file_url(const struct e2b_site *site, const char *path, bool writes,
             int64_t expires_s, struct error *err)
{
    AUTO_SBUF struct sbuf query = {0};
    AUTO_SBUF struct sbuf signature = {0};

    if (!e2b_is_path(path)) {
        error_fill(err, ERR_USAGE, E2B_NOT_PLAIN, path);
        return NULL;
    }
    e2b_file_add_query(&query, site, path);
    if (!secret_is_empty(site->envd_token)) {
        sbuf_init(&signature, MAX_SIGNATURE_BYTES);
        add_signature(&signature, site, path, writes, expires_s);
        sbuf_add_str(&query, "&signature=");
        e2b_add_escaped(&query, signature.data);
        if (expires_s > 0) {
            sbuf_addf(&query, "&signature_expiration=%" PRId64, expires_s);
        }
        assert(sbuf_ok(&query));
    }
    return xasprintf("%s%s", site->url[E2B_ENVD], query.data);
}
