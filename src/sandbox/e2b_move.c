/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "sandbox/workspace_internal.h"

#define HASH_PIECE ((size_t)1 << 20)
#define LIST_DEPTH (WORKSPACE_MAX_DEPTH + 1)
#define MAX_ERRORS 1024u
#define STAGING E2B_WORKSPACE "/" WORKSPACE_STATE "/put"

/* From where it was sent ($2) to its place, all at once, whatever a cell has
   put there instead; and its second name, unless there is something of a
   cell's. */
static const char put_script[] =
    "cd " E2B_WORKSPACE " && { { [ -d data ] && [ ! -L data ]; } || { rm -rf "
    "data && mkdir data; }; } && chmod 444 \"$2\" && chmod 755 data && { [ ! "
    "-d \"data/$1\" ] || [ -L \"data/$1\" ] || rm -rf \"data/$1\"; } && "
    "mv -f \"$2\" \"data/$1\" && chmod 555 data && { [ -e \"$1\" ] || [ "
    "-L \"$1\" ] || ln -s -- \"data/$1\" "
    "\"$1\"; } || { rm -f \"$2\"; exit 1; }";

/* --- what was sent --- */

void
e2b_forget_sent(struct e2b *e)
{
    for (size_t i = 0; i < e->n_sent; i++) {
        free(e->sent[i].name);
    }
    free(e->sent);
    e->sent = NULL;
    e->n_sent = 0;
}

static struct e2b_sent *
find_sent(const struct e2b *e, const char *name)
{
    for (size_t i = 0; i < e->n_sent; i++) {
        if (str_eq(e->sent[i].name, name)) {
            return &e->sent[i];
        }
    }
    return NULL;
}

static void
note_sent(struct e2b *e, const struct e2b_entry *entry)
{
    struct e2b_sent *s = find_sent(e, e->name);

    if (s == NULL) {
        e->sent = xreallocarray(e->sent, e->n_sent + 1, sizeof(e->sent[0]));
        s = &e->sent[e->n_sent++];
        s->name = xstrdup(e->name);
    }
    memcpy(s->hash, e->hash_text, sizeof(s->hash));
    s->size_bytes = entry->size_bytes;
    s->mtime_ns = entry->mtime_ns;
}

/* A cell may have written to it, or taken it away. */
static bool
is_as_sent(const struct e2b_sent *s, const struct e2b_entry *entry)
{
    return entry->type == E2B_ENTRY_FILE && !entry->is_link &&
           entry->size_bytes == s->size_bytes && entry->mtime_ns == s->mtime_ns;
}

/* --- ends --- */

void
e2b_move_drop(struct e2b *e)
{
    loop_task_remove(e->hashing);
    e->hashing = NULL;
    e2b_file_drop(e->file);
    e->file = NULL;
    e2b_process_drop(e->process);
    e->process = NULL;
}

bool
e2b_move_cancel(struct e2b *e)
{
    struct error err = {0};

    if (e->phase != E2B_PHASE_BUSY || e->cell.active || e->name == NULL ||
        (e->hashing == NULL && e->file == NULL && e->process == NULL)) {
        return false;
    }
    e2b_move_drop(e);
    error_fill(&err, ERR_CANCELLED, "%s: cancelled", e->name);
    free(take_ptr(&e->name));
    e2b_end_op(e, &err);
    return true;
}

static void
end_move(struct e2b *e, const struct error *err)
{
    free(take_ptr(&e->name));
    e2b_end_op_now(e, err);
}

/* --- in --- */

static char *
make_staging(const struct e2b *e)
{
    return xasprintf(STAGING "%u", e->n_uploads);
}

/* Whether what is at the place of a file that was put is that. */
static void
look_at_place(struct e2b *e, e2b_list_fn fn)
{
    AUTO_FREE char *path = xasprintf(E2B_WORKSPACE "/data/%s", e->name);
    struct error err = {0};

    e->file = e2b_file_stat(&e->site, path, fn, e, &err);
    if (e->file == NULL) {
        end_move(e, &err);
    }
}

static void
on_in_place(void *ctx, const struct e2b_entry *entries, size_t n, bool more,
            const struct e2b_data_result *result)
{
    struct e2b *e = ctx;
    struct error err = {0};

    (void)more;
    e->file = NULL;
    if (result->err != NULL && result->http_status != 404) {
        e2b_handle_trouble(e, result->trouble, false, result->err);
        return;
    }
    if (result->err == NULL && n == 1 && entries[0].type == E2B_ENTRY_FILE &&
        !entries[0].is_link) {
        note_sent(e, &entries[0]);
        end_move(e, NULL);
        return;
    }
    error_fill(&err, ERR_SANDBOX,
               "%s: is not at its place in the sandbox: a program there has "
               "put something else to it",
               e->name);
    end_move(e, &err);
}

static void
on_placed(void *ctx, const struct e2b_process_end *end)
{
    struct e2b *e = ctx;
    struct error err = {0};

    e->process = NULL;
    if (end->trouble != E2B_TROUBLE_NONE) {
        e2b_handle_trouble(e, end->trouble, false, end->err);
        return;
    }
    if (end->exit_status == 0) {
        look_at_place(e, on_in_place);
        return;
    }
    error_fill(&err, ERR_SANDBOX,
               "%s: cannot be put to its place in the "
               "sandbox: %s",
               e->name,
               e->errors.len > 0 ? e->errors.data : "no reason is known");
    end_move(e, &err);
}

static void
on_place_bytes(void *ctx, enum event_stream stream, const char *data,
               size_t len)
{
    struct e2b *e = ctx;
    size_t line = 0;

    (void)stream;
    if (e->errors.len > 0) {
        return;
    }
    while (line < len && line < MAX_ERRORS && data[line] != '\n') {
        line++;
    }
    sbuf_add(&e->errors, data, line);
}

static void
on_uploaded(void *ctx, const struct e2b_data_result *result)
{
    static const struct e2b_process_handlers handlers = {
        .on_bytes = on_place_bytes,
        .on_done = on_placed,
    };
    struct e2b *e = ctx;
    AUTO_FREE char *staging = make_staging(e);
    const char *argv[] = {"/bin/sh", "-c",    put_script, "sh",
                          e->name,   staging, NULL};
    struct error err = {0};

    e->file = NULL;
    if (result->err != NULL) {
        e2b_handle_trouble(e, result->trouble, false, result->err);
        return;
    }
    sbuf_clear(&e->errors);
    e->process = e2b_process_start(
        &e->site,
        &(struct e2b_process_spec){.argv = argv,
                                   .doing = "putting a file to its place"},
        &handlers, e, &err);
    if (e->process == NULL) {
        end_move(e, &err);
    }
}

static void
on_upload_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    struct e2b *e = ctx;

    if (e->put_progress != NULL) {
        e->put_progress(e->op_ctx, done_bytes, total_bytes);
    }
}

static void
start_upload(struct e2b *e)
{
    AUTO_FREE char *staging = NULL;
    struct error err = {0};

    e->n_uploads++;
    staging = make_staging(e);
    e->file = e2b_file_upload(&e->site, staging, e->fd, e->offset, e->total,
                              on_upload_progress, on_uploaded, e, &err);
    if (e->file == NULL) {
        end_move(e, &err);
    }
}

static void
on_looked_for(void *ctx, const struct e2b_entry *entries, size_t n, bool more,
              const struct e2b_data_result *result)
{
    struct e2b *e = ctx;
    const struct e2b_sent *s = find_sent(e, e->name);

    (void)more;
    e->file = NULL;
    if (result->err != NULL && result->http_status != 404) {
        e2b_handle_trouble(e, result->trouble, false, result->err);
    } else if (result->err == NULL && n == 1 && is_as_sent(s, &entries[0])) {
        end_move(e, NULL);
    } else {
        start_upload(e);
    }
}

/* Reading it once more costs less than sending what is there already. */
static void
hash_piece(void *ctx)
{
    struct e2b *e = ctx;
    size_t want = e->total - e->hashed < (off_t)HASH_PIECE
                      ? (size_t)(e->total - e->hashed)
                      : HASH_PIECE;
    AUTO_FREE char *piece = xreallocarray(NULL, want + 1, 1);
    ssize_t n = want > 0 ? pread(e->fd, piece, want, e->offset + e->hashed) : 0;
    const struct e2b_sent *s = NULL;
    struct error err = {0};

    e->hashing = NULL;
    if (n < 0 || (want > 0 && n == 0)) {
        error_fill(&err, ERR_IO, "%s: %s", e->name,
                   n < 0 ? strerror(errno) : "has become shorter");
        end_move(e, &err);
        return;
    }
    hash_add(&e->hash, piece, (size_t)n);
    e->hashed += n;
    if (e->hashed < e->total) {
        e->hashing = loop_defer(e->loop, hash_piece, e);
        return;
    }
    hash_end_hex(&e->hash, e->hash_text);
    s = find_sent(e, e->name);
    if (s != NULL && str_eq(s->hash, e->hash_text)) {
        look_at_place(e, on_looked_for);
        return;
    }
    start_upload(e);
}

/* Only now is it known what is there of it. */
static void
start_put(struct e2b *e)
{
    hash_init(&e->hash);
    e->hashed = 0;
    e->hashing = loop_defer(e->loop, hash_piece, e);
}

static int
check_put(const struct sandbox_put *put, off_t *total, struct error *err)
{
    struct stat st;

    if (!workspace_name_ok(put->name) ||
        !utf8_valid(put->name, strlen(put->name))) {
        return err_set(err, ERR_USAGE, "%s: no name for a file inside",
                       put->name != NULL ? put->name : "");
    }
    if (put->offset < 0 || fstat(put->fd, &st) != 0) {
        return err_set_errno(err, ERR_IO, "%s", put->name);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_UNSUPPORTED, "%s: is no regular file",
                       put->name);
    }
    *total = st.st_size > put->offset ? st.st_size - put->offset : 0;
    if (put->limit >= 0 && *total > put->limit) {
        *total = put->limit;
    }
    return 0;
}

static bool
begin_op(struct e2b *e, void *ctx)
{
    struct error err = {0};

    e->op_ctx = ctx;
    free(take_ptr(&e->name));
    if (e->phase == E2B_PHASE_IDLE) {
        e2b_set_phase(e, E2B_PHASE_BUSY);
        return true;
    }
    error_fill(&err, ERR_SANDBOX, "no sandbox is open");
    e2b_end_op(e, &err);
    return false;
}

void
e2b_put(struct sandbox_backend *b, const struct sandbox_put *put,
        sandbox_progress_fn progress, sandbox_done_fn done, void *ctx)
{
    struct e2b *e = (struct e2b *)b;
    struct error err = {0};

    e->done = done;
    e->put_progress = progress;
    if (!begin_op(e, ctx)) {
        return;
    }
    if (check_put(put, &e->total, &err) < 0) {
        e2b_end_op(e, &err);
        return;
    }
    e->name = xstrdup(put->name);
    e->fd = put->fd;
    e->offset = put->offset;
    e2b_begin(e, start_put);
}

/* --- what is there --- */

static const char *
find_refusal(const struct e2b_entry *entry)
{
    static const char *const words[] = {
        [E2B_ENTRY_OTHER] = "no regular file", [E2B_ENTRY_FILE] = NULL,
        [E2B_ENTRY_DIRECTORY] = "a directory", [E2B_ENTRY_FIFO] = "a FIFO",
        [E2B_ENTRY_SOCKET] = "a socket",       [E2B_ENTRY_DEVICE] = "a device",
    };

    return entry->is_link ? "a symbolic link" : words[entry->type];
}

/* Below the workspace, and the person's. */
static const char *
find_name(const struct e2b *e, const struct e2b_entry *entry)
{
    const char *name = entry->path;

    if (!str_starts(name, E2B_WORKSPACE "/")) {
        return NULL;
    }
    name += strlen(E2B_WORKSPACE "/");
    if (!workspace_path_ok(name) || str_starts(name, "data/") ||
        str_eq(name, "data") || str_starts(name, WORKSPACE_STATE "/") ||
        str_eq(name, WORKSPACE_STATE)) {
        return NULL;
    }
    /* The second name of a file that was put. */
    if (entry->is_link && find_sent(e, name) != NULL) {
        return NULL;
    }
    return entry->type == E2B_ENTRY_DIRECTORY && !entry->is_link ? NULL : name;
}

/* As the local sandbox sorts them. */
static int
compare_files(const void *a, const void *b)
{
    const struct sandbox_file *x = a;
    const struct sandbox_file *y = b;

    return strcmp(x->name, y->name);
}

static void
on_listed(void *ctx, const struct e2b_entry *entries, size_t n, bool more,
          const struct e2b_data_result *result)
{
    struct e2b *e = ctx;
    AUTO_FREE struct sandbox_file *files = NULL;
    struct sandbox_list list = {.more = more};
    sandbox_list_fn done = e->list_done;

    e->file = NULL;
    if (result->err != NULL) {
        e2b_handle_trouble(e, result->trouble, false, result->err);
        return;
    }
    files = xcalloc(n + 1, sizeof(files[0]));
    for (size_t i = 0; i < n; i++) {
        const char *name = find_name(e, &entries[i]);

        if (name == NULL) {
            continue;
        }
        files[list.n_files++] = (struct sandbox_file){
            .name = name,
            .size_bytes = entries[i].size_bytes,
            .mtime_ns = entries[i].mtime_ns,
            .refused = find_refusal(&entries[i]),
        };
    }
    if (list.n_files > 0) {
        qsort(files, list.n_files, sizeof(files[0]), compare_files);
    }
    list.files = files;
    list.n_left_out = more ? 1 : 0;
    e->list_done = NULL;
    e2b_set_phase(e, E2B_PHASE_IDLE);
    e2b_enter(e);
    done(e->op_ctx, &list, NULL);
    e2b_leave(e);
}

static void
start_list(struct e2b *e)
{
    struct error err = {0};

    e->file =
        e2b_file_list(&e->site, E2B_WORKSPACE, LIST_DEPTH, on_listed, e, &err);
    if (e->file == NULL) {
        e2b_end_op(e, &err);
    }
}

void
e2b_list(struct sandbox_backend *b, sandbox_list_fn done, void *ctx)
{
    struct e2b *e = (struct e2b *)b;

    e->list_done = done;
    if (begin_op(e, ctx)) {
        e2b_begin(e, start_list);
    }
}

/* --- out --- */

static void look_at_next(struct e2b *e);

static void
on_downloaded(void *ctx, const struct e2b_data_result *result)
{
    struct e2b *e = ctx;

    e->file = NULL;
    if (result->err == NULL) {
        end_move(e, NULL);
    } else if (result->trouble == E2B_TROUBLE_REFUSED) {
        end_move(e, result->err);
    } else {
        e2b_handle_trouble(e, result->trouble, false, result->err);
    }
}

static void
download(struct e2b *e)
{
    AUTO_FREE char *path = xasprintf(E2B_WORKSPACE "/%s", e->name);
    struct error err = {0};

    /* What an earlier try has left of it. */
    if (e->was_retried &&
        (ftruncate(e->fd, 0) != 0 || lseek(e->fd, 0, SEEK_SET) != 0)) {
        error_fill(&err, ERR_IO, "%s: %s", e->name, strerror(errno));
        end_move(e, &err);
        return;
    }
    e->file = e2b_file_download(&e->site, path, e->fd, e->offset, e->limit,
                                on_downloaded, e, &err);
    if (e->file == NULL) {
        end_move(e, &err);
    }
}

/* Where the n-th component of the name ends. */
static size_t
component_end(const char *name, size_t n)
{
    const char *at = name;

    for (size_t i = 0; i <= n && at != NULL; i++) {
        at = strchr(at + (i > 0), '/');
    }
    return at != NULL ? (size_t)(at - name) : strlen(name);
}

static int
check_entry(const struct e2b *e, const struct e2b_entry *entry, bool is_last,
            struct error *err)
{
    if (entry->is_link && !is_last) {
        return err_set(err, ERR_UNSUPPORTED, "%s: leads through a link",
                       e->name);
    }
    if (!is_last) {
        return 0;
    }
    if (find_refusal(entry) != NULL) {
        return err_set(err, ERR_UNSUPPORTED, "%s: is %s", e->name,
                       find_refusal(entry));
    }
    if (e->limit >= 0 &&
        entry->size_bytes > (uint64_t)e->limit + (uint64_t)e->offset) {
        return err_set(err, ERR_TOO_LARGE,
                       "%s: has %llu bytes, at most %lld are read", e->name,
                       (unsigned long long)entry->size_bytes,
                       (long long)e->limit);
    }
    return 0;
}

static void
on_looked_at(void *ctx, const struct e2b_entry *entries, size_t n, bool more,
             const struct e2b_data_result *result)
{
    struct e2b *e = ctx;
    bool is_last = component_end(e->name, e->n_stats) == strlen(e->name);
    struct error err = {0};

    (void)more;
    e->file = NULL;
    if (result->err != NULL && result->http_status == 404) {
        error_fill(&err, ERR_IO, "%s: %s", e->name, strerror(ENOENT));
        end_move(e, &err);
        return;
    }
    if (result->err != NULL) {
        e2b_handle_trouble(e, result->trouble, false, result->err);
        return;
    }
    if (n != 1 || check_entry(e, &entries[0], is_last, &err) < 0) {
        end_move(e, &err);
        return;
    }
    if (is_last) {
        download(e);
        return;
    }
    e->n_stats++;
    look_at_next(e);
}

/* No link is followed, in no component of the name. */
static void
look_at_next(struct e2b *e)
{
    AUTO_FREE char *path =
        xasprintf(E2B_WORKSPACE "/%.*s",
                  (int)component_end(e->name, e->n_stats), e->name);
    struct error err = {0};

    e->file = e2b_file_stat(&e->site, path, on_looked_at, e, &err);
    if (e->file == NULL) {
        end_move(e, &err);
    }
}

static void
start_get(struct e2b *e)
{
    e->n_stats = 0;
    look_at_next(e);
}

void
e2b_get(struct sandbox_backend *b, const char *name, int fd, off_t offset,
        off_t limit, sandbox_done_fn done, void *ctx)
{
    struct e2b *e = (struct e2b *)b;
    struct error err = {0};

    e->done = done;
    if (!begin_op(e, ctx)) {
        return;
    }
    if (!workspace_path_ok(name)) {
        error_fill(&err, ERR_UNSUPPORTED, "%s: is no name below the workspace",
                   name);
        e2b_end_op(e, &err);
        return;
    }
    e->name = xstrdup(name);
    e->fd = fd;
    e->offset = offset;
    e->limit = limit;
    e2b_begin(e, start_get);
}
