/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/http.h"
#include "sandbox/e2b_leftovers_internal.h"
#include "sandbox/key_source.h"

#define LOG_MODULE "e2b"

static void make_sandbox(struct e2b *e);
static void make_dirs(struct e2b *e);
static void make_ready(struct e2b *e);
static void describe(struct e2b *e);
static void open_runner(struct e2b *e);

static void
tell(struct e2b *e, const char *what)
{
    if (e->progress != NULL) {
        e2b_enter(e);
        e->progress(e->base.on_lost_ctx, what);
        e2b_leave(e);
    }
}

void
e2b_drop_runner(struct e2b *e)
{
    if (e->runner != NULL) {
        e->runner->ops->free(e->runner);
    }
    e->runner = NULL;
    e->runner_ready = false;
    e->is_stale = false;
}

/* --- sandboxes that are not wanted --- */

void
e2b_forget_sandbox(struct e2b *e)
{
    e2b_life_end(e);
    e2b_drop_runner(e);
    e2b_site_fini(&e->site);
    e2b_sandbox_fini(&e->sandbox);
    memset(&e->sandbox, 0, sizeof(e->sandbox));
    e->has_sandbox = false;
    e->is_paused = false;
    e->is_unsure = false;
    e2b_forget_sent(e);
}

static void
on_ended(void *ctx, struct e2b_result *result)
{
    struct e2b *e = ctx;

    if (result->err != NULL) {
        LOG_WARN("not ended: %s", result->err->msg);
    } else {
        e->n_strays--;
    }
}

void
e2b_abandon_sandbox(struct e2b *e)
{
    struct error err = {0};

    if (!e->has_sandbox) {
        return;
    }
    e->n_strays++;
    if (e2b_api_kill(e->api, e->sandbox.id, on_ended, e, &err) == NULL) {
        LOG_WARN("not ended: %s", err.msg);
    }
    e2b_forget_sandbox(e);
}

static void
on_swept(void *ctx, size_t n_ended, const struct error *err)
{
    struct e2b *e = ctx;

    LOG_INFO("%zu ended that nobody knew of%s%s", n_ended,
             err != NULL ? "; " : "", err != NULL ? err->msg : "");
    e2b_sweep_free(e->sweep);
    e->sweep = NULL;
    e->n_strays -= e->n_strays > 0 && n_ended > 0 ? 1 : 0;
}

/* What was made without anybody's knowing its id is found by its labels. */
static void
sweep(struct e2b *e)
{
    struct e2b_pair labels[E2B_N_LABELS];
    size_t n = e2b_labels(&e->config, e->id, labels);
    struct error err = {0};

    if (e->n_strays == 0) {
        return;
    }
    e->sweep =
        e2b_sweep_start(e->loop, e->api,
                        &(struct e2b_sweep_options){
                            .labels = labels,
                            .n_labels = n,
                            .keep = e->has_sandbox ? e->sandbox.id : NULL,
                        },
                        on_swept, e, &err);
    if (e->sweep == NULL) {
        LOG_WARN("%s", err.msg);
    }
}

static void
stop_sweep(struct e2b *e)
{
    e2b_sweep_free(e->sweep);
    e->sweep = NULL;
}

/* --- the end of opening --- */

void
e2b_open_drop(struct e2b *e)
{
    stop_sweep(e);
    key_ask_drop(e->key_asked);
    e->key_asked = NULL;
    key_ask_drop(e->other_key_asked);
    e->other_key_asked = NULL;
    e2b_file_drop(e->file);
    e->file = NULL;
    e2b_process_drop(e->process);
    e->process = NULL;
    /* Those of the API end with it. */
    e->call = NULL;
}

static void
end_open(struct e2b *e, const struct error *err)
{
    bool of_cell = e->cell.active;

    e2b_set_phase(e, err != NULL ? E2B_PHASE_SHUT
                     : of_cell   ? E2B_PHASE_BUSY
                                 : E2B_PHASE_IDLE);
    if (of_cell && err != NULL) {
        struct error why = *err;

        error_prepend(&why, "%s",
                      e->cell.files_lost
                          ? "the sandbox is gone with its variables and files, "
                            "and no other can be had"
                          : "the interpreter is gone with its variables, and "
                            "no other can be had");
        e2b_cell_reopened(e, &why);
    } else if (of_cell) {
        e2b_cell_reopened(e, NULL);
    } else {
        e2b_end_op(e, err);
    }
}

/* A new one that is of no use would be billed; one that has been used may have
   what the person needs, and is looked for another time. Its interpreter may
   still run what nobody wants any more, and is ended then. */
static void
fail(struct e2b *e, const struct error *err)
{
    struct error copy = *err;

    if (e->is_new) {
        e2b_drop_runner(e);
        e2b_abandon_sandbox(e);
    } else {
        e->runner_ready = false;
        e->is_stale = e->runner != NULL;
        e->is_unsure = true;
    }
    end_open(e, &copy);
}

/* It has ended unseen: another takes its place. Where it was only said to have
   ended, it would go on being billed. */
static void
replace_sandbox(struct e2b *e)
{
    if (e->cell.active) {
        e->cell.files_lost = true;
    } else {
        e->base.files_lost = true;
    }
    e2b_abandon_sandbox(e);
    make_sandbox(e);
}

/* --- the interpreter --- */

static void
on_runner(void *ctx, const struct e2b_run_end *end)
{
    struct e2b *e = ctx;
    struct error err = {0};

    if (end->way == E2B_RUN_DONE) {
        e->runner_ready = true;
        e->runner->on_lost = e2b_on_runner_lost;
        e->runner->on_lost_ctx = e;
        e->ready_ms = clock_now_ms();
        e->is_new = false;
        end_open(e, NULL);
        return;
    }
    if (end->err != NULL) {
        err = *end->err;
    } else {
        error_fill(&err, ERR_SANDBOX,
                   "the interpreter ended while it was made ready");
    }
    if (end->way == E2B_RUN_LOST && err.code == ERR_UNSUPPORTED &&
        !e->no_interpreter) {
        LOG_INFO("%s", err.msg);
        e->no_interpreter = true;
        e2b_drop_runner(e);
        make_ready(e);
        return;
    }
    if (end->way == E2B_RUN_TROUBLE && end->trouble == E2B_TROUBLE_GONE &&
        !e->is_new) {
        replace_sandbox(e);
    } else if (end->way == E2B_RUN_TROUBLE && end->trouble == E2B_TROUBLE_CUT &&
               !e->open_was_retried) {
        /* Nothing of the person's has run in it. */
        LOG_INFO("once more: %s", err.msg);
        e->open_was_retried = true;
        e->is_stale = true;
        open_runner(e);
    } else {
        fail(e, &err);
    }
}

static void
make_ready(struct e2b *e)
{
    const struct e2b_runner_config config = {
        .output_bytes = e->limits.output_bytes,
        .memory_bytes = (uint64_t)e->sandbox.memory_mib << 20,
        .has_network = e->base.caps.has_network,
    };

    if (e->runner == NULL) {
        e->runner = e->no_interpreter ? e2b_kernel_new(&e->site, &config)
                                      : e2b_cells_new(&e->site, &config);
    }
    e->runner->ops->open(e->runner, on_runner, e);
}

static void
on_runner_ended(void *ctx, const struct e2b_run_end *end)
{
    struct e2b *e = ctx;

    if (end->way == E2B_RUN_TROUBLE) {
        LOG_WARN("%s", end->err->msg);
        e2b_drop_runner(e);
    }
    make_ready(e);
}

static void
open_runner(struct e2b *e)
{
    if (!e->open_was_retried) {
        tell(e, "starting Python in the sandbox");
    }
    if (e->runner == NULL || !e->is_stale) {
        make_ready(e);
        return;
    }
    e->is_stale = false;
    e->runner->ops->end(e->runner, on_runner_ended, e);
}

/* --- the place --- */

/* The first request to a sandbox shows whether its address is right. */
static void
fail_workspace(struct e2b *e, const struct error *err)
{
    struct error why = *err;

    if (err->code == ERR_NET && e->config.sandbox_url == NULL &&
        e->n_dirs == 0) {
        error_fill(&why, err->code,
                   "%s (sandbox_url or domain says where sandboxes are)",
                   err->msg);
    }
    fail(e, &why);
}

static void
on_workspace(void *ctx, const struct e2b_data_result *result)
{
    struct e2b *e = ctx;

    e->file = NULL;
    if (result->err == NULL) {
        e->n_dirs++;
        make_dirs(e);
    } else if (result->trouble == E2B_TROUBLE_GONE && !e->is_new) {
        replace_sandbox(e);
    } else {
        fail_workspace(e, result->err);
    }
}

/* One after the other, then the interpreter. */
static void
make_dirs(struct e2b *e)
{
    static const char *const dirs[] = {E2B_WORKSPACE "/data",
                                       E2B_WORKSPACE "/output"};
    struct error err = {0};

    if (e->n_dirs == LEN(dirs)) {
        open_runner(e);
        return;
    }
    e->file =
        e2b_file_make_dir(&e->site, dirs[e->n_dirs], on_workspace, e, &err);
    if (e->file == NULL) {
        fail(e, &err);
    }
}

static void
make_workspace(struct e2b *e)
{
    e->n_dirs = 0;
    make_dirs(e);
}

/* --- the sandbox --- */

static void
note_size(struct e2b *e)
{
    if (e->sandbox.cpu_count > 0) {
        e->cpu_count = e->sandbox.cpu_count;
    }
    if (e->sandbox.memory_mib > 0) {
        e->memory_mib = e->sandbox.memory_mib;
    }
}

int
e2b_take_sandbox(struct e2b *e, struct e2b_result *result, struct error *err)
{
    struct e2b_sandbox *s = &result->sandboxes[0];
    int cpu_count = s->cpu_count > 0 ? s->cpu_count : e->sandbox.cpu_count;
    int memory_mib = s->memory_mib > 0 ? s->memory_mib : e->sandbox.memory_mib;
    struct e2b_site site = {0};

    if (e2b_site_init(&site, e->loop, e->http, e->config.sandbox_url,
                      e->config.domain, s, err) < 0) {
        return -1;
    }
    e2b_site_fini(&e->site);
    e->site = site;
    e2b_sandbox_fini(&e->sandbox);
    e->sandbox = *s;
    memset(s, 0, sizeof(*s));
    e->sandbox.cpu_count = cpu_count;
    e->sandbox.memory_mib = memory_mib;
    note_size(e);
    e->has_sandbox = true;
    e->is_paused = false;
    e->is_unsure = false;
    e2b_life_begin(e);
    return 0;
}

static void
refuse_egress(struct e2b *e)
{
    struct error err = {0};

    error_fill(&err, ERR_CONFIG,
               "sandbox %s at %s reaches the internet although it is to reach "
               "%s: the service did not do what was asked\n"
               "to run cells there all the same: internet: true",
               e->sandbox.id, e2b_api_host(e->api), e->egress);
    fail(e, &err);
}

static void
on_network_set(void *ctx, struct e2b_result *result)
{
    struct e2b *e = ctx;

    e->call = NULL;
    if (result->err != NULL) {
        LOG_INFO("%s", result->err->msg);
    }
    describe(e);
}

/* A service may ignore what a create says of it. */
static void
check_egress(struct e2b *e, const struct e2b_sandbox *s)
{
    enum e2b_egress_check found =
        s != NULL ? e2b_api_check_egress(e->api, s) : E2B_EGRESS_NOT_SAID;
    struct error err = {0};

    e->is_confirmed = found == E2B_EGRESS_CONFIRMED;
    if (found == E2B_EGRESS_CONFIRMED || e->config.egress == E2B_INTERNET) {
        make_workspace(e);
        return;
    }
    if (!e->has_set_network) {
        e->has_set_network = true;
        e->call =
            e2b_api_set_network(e->api, e->sandbox.id, on_network_set, e, &err);
        if (e->call != NULL) {
            return;
        }
    }
    if (found == E2B_EGRESS_CONTRADICTED) {
        refuse_egress(e);
    } else {
        make_workspace(e);
    }
}

static void
on_described(void *ctx, struct e2b_result *result)
{
    struct e2b *e = ctx;
    const struct e2b_sandbox *s =
        result->err == NULL && result->n_sandboxes == 1 ? &result->sandboxes[0]
                                                        : NULL;

    e->call = NULL;
    if (s != NULL) {
        e->sandbox.cpu_count = s->cpu_count;
        e->sandbox.memory_mib = s->memory_mib;
        note_size(e);
        if (s->end_ms > 0) {
            e->end_ms = s->end_ms;
        }
    }
    check_egress(e, s);
}

static void
describe(struct e2b *e)
{
    struct error err = {0};

    e->call = e2b_api_info(e->api, e->sandbox.id, on_described, e, &err);
    if (e->call == NULL) {
        check_egress(e, NULL);
    }
}

static void
on_made(void *ctx, struct e2b_result *result)
{
    struct e2b *e = ctx;
    struct error err = {0};

    e->call = NULL;
    e->was_asked_for = false;
    if (result->err != NULL && result->maybe_made) {
        e->n_strays++;
    }
    e2b_check_key(e, result);
    if (result->err != NULL) {
        err = *result->err;
        sweep(e);
        end_open(e, &err);
        return;
    }
    e->is_new = true;
    e->has_set_network = false;
    e->made_ms = clock_wall_ms();
    if (e2b_take_sandbox(e, result, &err) < 0) {
        /* Its id is known, though not how to reach it. */
        e->sandbox = result->sandboxes[0];
        memset(&result->sandboxes[0], 0, sizeof(result->sandboxes[0]));
        e->has_sandbox = true;
        fail(e, &err);
        return;
    }
    sweep(e);
    describe(e);
}

static void
make_sandbox(struct e2b *e)
{
    AUTO_FREE char *text =
        xasprintf("making a sandbox at %s", e2b_api_host(e->api));
    struct error err = {0};

    tell(e, text);
    /* It would end the new one. */
    stop_sweep(e);
    e->no_interpreter = false;
    e->was_asked_for = true;
    e->call = e2b_api_create(e->api, on_made, e, &err);
    if (e->call == NULL) {
        e->was_asked_for = false;
        end_open(e, &err);
    }
}

static void
on_found(void *ctx, struct e2b_result *result)
{
    struct e2b *e = ctx;
    struct error err = {0};

    e->call = NULL;
    e2b_check_key(e, result);
    if (result->err == NULL) {
        if (e2b_take_sandbox(e, result, &err) < 0) {
            fail(e, &err);
            return;
        }
        make_workspace(e);
        return;
    }
    if (result->fault == E2B_FAULT_GONE) {
        replace_sandbox(e);
    } else {
        fail(e, result->err);
    }
}

/* That of before, if there is one and it is still there; else a new one. */
static void
find_sandbox(struct e2b *e)
{
    struct error err = {0};

    if (!e->has_sandbox) {
        make_sandbox(e);
    } else if (!e->is_unsure && !e->is_paused) {
        make_workspace(e);
    } else {
        tell(e, "looking for the sandbox");
        e->call = e2b_api_connect(e->api, e->sandbox.id, e->config.timeout_s,
                                  false, on_found, e, &err);
        if (e->call == NULL) {
            fail(e, &err);
        }
    }
}

/* --- the key --- */

void
e2b_check_key(struct e2b *e, const struct e2b_result *result)
{
    if (result->fault == E2B_FAULT_AUTH) {
        e->key_is_bad = true;
        if (e->config.key_source != NULL) {
            key_source_refuse(e->config.key_source, e->own_key);
        }
    } else if (result->err == NULL) {
        e->key_is_bad = false;
        e->other_key_was_asked = false;
    }
}

/* What is under way with the old one ends without callbacks. */
static int
use_key(struct e2b *e, const struct secret *key, struct error *err)
{
    struct e2b_pair labels[E2B_N_LABELS];
    size_t n = e2b_labels(&e->config, e->id, labels);
    const struct secret *old = e->own_key;
    struct e2b_api_config config;
    struct e2b_api *api = NULL;

    e->own_key = key;
    if (key != old) {
        e2b_fill_api_config(e, &config, labels, n);
        api = e2b_api_new(e->loop, e->http, &config, err);
        if (api == NULL) {
            e->own_key = old;
            return -1;
        }
        stop_sweep(e);
        e2b_api_free(e->api);
        e->api = api;
        e->call = e->renewal = NULL;
    }
    e->key_is_bad = false;
    return 0;
}

static void
on_key(void *ctx, const struct secret *key, const struct error *err)
{
    struct e2b *e = ctx;
    struct error mine = {0};

    e->key_asked = NULL;
    if (err != NULL) {
        fail(e, err);
    } else if (use_key(e, key, &mine) < 0) {
        fail(e, &mine);
    } else {
        find_sandbox(e);
    }
}

static void
on_other_key(void *ctx, const struct secret *key, const struct error *err)
{
    struct e2b *e = ctx;
    void (*then)(struct e2b * e, const struct error *err) = take_ptr(&e->then);
    struct error mine = {0};

    e->other_key_asked = NULL;
    if (err != NULL) {
        mine = *err;
    } else if (e->call != NULL) {
        /* Another time: the source has it by then. */
        e->other_key_was_asked = false;
        error_fill(&mine, ERR_AUTH, "the key changes while it is in use");
    } else {
        (void)!use_key(e, key, &mine);
    }
    then(e, mine.code != ERR_NONE ? &mine : NULL);
}

bool
e2b_ask_other_key(struct e2b *e,
                  void (*then)(struct e2b *e, const struct error *err))
{
    if (e->config.key_source == NULL || e->other_key_was_asked ||
        e->other_key_asked != NULL) {
        return false;
    }
    e->other_key_was_asked = true;
    e->then = then;
    e->other_key_asked =
        key_source_ask(e->config.key_source, e->own_key, on_other_key, e);
    return true;
}

/* At each open: another user of the source may have a newer key. */
void
e2b_open_begin(struct e2b *e)
{
    const struct secret *refused = e->key_is_bad ? e->own_key : NULL;

    e->runner_ready = false;
    e->open_was_retried = false;
    if (e->config.key_source == NULL) {
        find_sandbox(e);
        return;
    }
    if (!key_source_has(e->config.key_source, refused)) {
        tell(e, "asking for the key");
    }
    e->key_asked = key_source_ask(e->config.key_source, refused, on_key, e);
}
