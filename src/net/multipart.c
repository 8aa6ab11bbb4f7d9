/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "net/multipart.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sbuf.h"

enum { BOUNDARY_RANDOM_BYTES = 16 };

/* Each byte of a name takes at most three. */
#define MAX_AROUND_NAME_BYTES ((size_t)512)

static int
add_boundary(struct sbuf *sb, struct error *err)
{
    unsigned char random[BOUNDARY_RANDOM_BYTES];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return err_set_errno(err, ERR_INTERNAL, "getrandom");
    }
    sbuf_add_str(sb, "sandpiper-");
    for (size_t i = 0; i < sizeof(random); i++) {
        sbuf_addf(sb, "%02x", random[i]);
    }
    return 0;
}

static void
add_name(struct sbuf *sb, const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name == '"' || *name == '\r' || *name == '\n') {
            sbuf_addf(sb, "%%%02X", (unsigned)*name);
        } else {
            sbuf_add_char(sb, *name);
        }
    }
}

int
multipart_init(struct multipart *m, const char *file_name, struct error *err)
{
    AUTO_SBUF struct sbuf boundary = {0};
    struct sbuf head;

    sbuf_init(&boundary, MAX_AROUND_NAME_BYTES);
    if (add_boundary(&boundary, err) < 0) {
        return -1;
    }
    sbuf_init(&head, MAX_AROUND_NAME_BYTES + 3 * strlen(file_name));
    sbuf_addf(&head,
              "--%s\r\nContent-Disposition: form-data; name=\"file\"; "
              "filename=\"",
              boundary.data);
    add_name(&head, file_name);
    sbuf_add_str(&head, "\"\r\nContent-Type: application/octet-stream\r\n\r\n");
    m->content_type =
        xasprintf("multipart/form-data; boundary=%s", boundary.data);
    m->head_len = head.len;
    m->head = sbuf_take(&head);
    m->tail = xasprintf("\r\n--%s--\r\n", boundary.data);
    m->tail_len = strlen(m->tail);
    return 0;
}

void
multipart_fini(struct multipart *m)
{
    free(m->content_type);
    free(m->head);
    free(m->tail);
    *m = (struct multipart){0};
}
