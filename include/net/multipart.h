/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What stands around a file in a multipart/form-data body of one part
 * (RFC 7578); the file itself goes between head and tail by struct http_body.
 */
#ifndef NET_MULTIPART_H
#define NET_MULTIPART_H

#include <stddef.h>

#include "base/cleanup.h"

struct error;

struct multipart {
    char *content_type; /* owned; for the header of that name */
    char *head;         /* owned */
    size_t head_len;
    char *tail; /* owned */
    size_t tail_len;
};

/*
 * Makes a part called "file" with a file name as browsers write it: UTF-8 as it
 * is, `"`, CR and LF as %22, %0D and %0A. The boundary is of 128 random bits,
 * so that the file need not be searched for it. Errors: ERR_INTERNAL (no random
 * bytes).
 */
WARN_UNUSED int multipart_init(struct multipart *m, const char *file_name,
                               struct error *err);
void multipart_fini(struct multipart *m);

#endif
