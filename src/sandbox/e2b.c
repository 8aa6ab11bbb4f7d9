/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/e2b_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "net/http.h"
#include "sandbox/e2b_leftovers_internal.h"
#include "sandbox/e2b_wire_internal.h"

#define LOG_MODULE "e2b"

#define DEFAULT_OUTPUT ((uint64_t)4 << 20)
#define MAX_EGRESS_BYTES ((size_t)1024)
#define MAX_ERRORS_BYTES 2048u
#define CONNECT_MS 10000

/* --- around calls from the loop --- */

static void destroy(struct e2b *e);

void
e2b_enter(struct e2b *e)
{
    e->depth++;
}

void
e2b_leave(struct e2b *e)
{
    e->depth--;
    if (e->dead && e->depth == 0) {
        destroy(e);
    }
}

void
e2b_set_phase(struct e2b *e, enum e2b_phase phase)
{
    static const char *const names[] = {"shut", "opening", "idle", "busy",
                                        "paused"};

    LOG_DBG("%s -> %s", names[e->phase], names[phase]);
    e->phase = phase;
}

/* --- operations that are no cells --- */

void
e2b_end_op_now(struct e2b *e, const struct error *err)
{
    sandbox_done_fn done = e->done;
    sandbox_list_fn list_done = e->list_done;
    sandbox_vars_fn vars_done = e->vars_done;
    sandbox_saved_fn saved_done = e->saved_done;
    void *ctx = e->op_ctx;

    e->done = NULL;
    e->list_done = NULL;
    e->vars_done = NULL;
    e->saved_done = NULL;
    if (e->phase == E2B_PHASE_BUSY) {
        e2b_set_phase(e, E2B_PHASE_IDLE);
    }
    e2b_enter(e);
    if (done != NULL) {
        done(ctx, err != NULL ? SANDBOX_ERROR : SANDBOX_DONE, err);
    } else if (list_done != NULL) {
        list_done(ctx, NULL, err);
    } else if (vars_done != NULL) {
        vars_done(ctx, NULL, err);
    } else if (saved_done != NULL) {
        saved_done(ctx, NULL, err);
    }
    e2b_leave(e);
}

static void
on_end_op(void *ctx)
{
    struct e2b *e = ctx;
    struct error err = e->op_err;

    e->task = NULL;
    memset(&e->op_err, 0, sizeof(e->op_err));
    e2b_end_op_now(e, err.code != ERR_NONE ? &err : NULL);
}

void
e2b_end_op(struct e2b *e, const struct error *err)
{
    e->op_err = err != NULL ? *err : (struct error){0};
    assert(e->task == NULL);
    e->task = loop_defer(e->loop, on_end_op, e);
}

/* --- opening and closing --- */

static void
open_sandbox(struct sandbox_backend *b,
             void (*progress)(void *ctx, const char *what),
             sandbox_done_fn done, void *ctx)
{
    struct e2b *e = (struct e2b *)b;

    assert(e->done == NULL && e->task == NULL);
    e->done = done;
    e->op_ctx = ctx;
    e->progress = progress;
    e2b_set_phase(e, E2B_PHASE_OPENING);
    e2b_open_begin(e);
}

static void
interrupt(struct sandbox_backend *b)
{
    struct e2b *e = (struct e2b *)b;

    if (e->cell.active) {
        e2b_cell_stop(e, EVENT_INTERRUPTED);
    } else if (e2b_move_cancel(e)) {
        return;
    } else if ((e->vars_done != NULL || e->saved_done != NULL) &&
               e->runner != NULL) {
        e->runner->ops->interrupt(e->runner);
    }
}

void
e2b_drop_everything(struct e2b *e)
{
    e2b_open_drop(e);
    e2b_cell_drop(e);
    e2b_move_drop(e);
    loop_task_remove(e->task);
    e->task = NULL;
    e2b_life_end(e);
    e2b_drop_runner(e);
}

static void
destroy(struct e2b *e)
{
    for (size_t i = 0; i < e->config.n_envs; i++) {
        free_const(e->config.envs[i].name);
        free_const(e->config.envs[i].value);
    }
    for (size_t i = 0; i < e->config.n_hosts; i++) {
        free_const(e->config.hosts[i]);
    }
    free_const(e->config.envs);
    free_const(e->config.hosts);
    free_const(e->config.name);
    free_const(e->config.api_url);
    free_const(e->config.sandbox_url);
    free_const(e->config.domain);
    free_const(e->config.key_setting);
    free_const(e->config.template_name);
    free_const(e->config.owner);
    free_const(e->config.run);
    free_const(e->config.user_agent);
    free(e->envs);
    free(e->egress);
    free(e->unsure_egress);
    free(e->name);
    sbuf_fini(&e->errors);
    e2b_forget_sent(e);
    e2b_site_fini(&e->site);
    e2b_sandbox_fini(&e->sandbox);
    free(e);
}

static void
close_sandbox(struct sandbox_backend *b)
{
    struct e2b *e = (struct e2b *)b;

    e2b_drop_everything(e);
    e2b_give_up(e);
    e2b_api_free(e->api);
    e->api = NULL;
    http_free(e->http);
    e->http = NULL;
    if (e->depth > 0) {
        e->dead = true;
    } else {
        destroy(e);
    }
}

/* --- what is known of it --- */

static void
fill_info(struct sandbox_backend *b, struct sandbox_info *info)
{
    struct e2b *e = (struct e2b *)b;

    info->backend = "e2b";
    info->bound_by = "service";
    info->cell_ms = e->limits.cell_ms;
    info->output_bytes = e->limits.output_bytes;
    info->host = e->api != NULL ? e2b_api_host(e->api) : e->config.api_url;
    info->template_name = e->config.template_name;
    info->egress =
        e->has_sandbox && !e->is_confirmed && e->config.egress != E2B_INTERNET
            ? e->unsure_egress
            : e->egress;
    info->pauses_at_end = e->config.auto_pause;
    info->end_is_fixed = e->no_renewal;
    info->billed_ms = e2b_billed_ms(e);
    /* Also when there is none any more: what it cost depends on it. */
    info->cpu_count = e->cpu_count;
    info->memory_mib = e->memory_mib;
    if (!e->has_sandbox) {
        return;
    }
    info->id = e->sandbox.id;
    info->made_ms = e->made_ms;
    info->end_ms = e->is_paused ? 0 : e->end_ms;
    if (e->runner == NULL || !e->runner_ready) {
        return;
    }
    info->cells_by = e->runner->ops->name;
    info->python = e->runner->ops->python(e->runner);
    info->uptime_ms = clock_now_ms() - e->ready_ms;
    if (info->uptime_ms < 1) {
        info->uptime_ms = 1;
    }
}

/* --- variables --- */

/* One that was interrupted may still be at it, and is asked before it is used.
 */
static void
end_asking(struct e2b *e, const struct error *err)
{
    if (err != NULL && err->code == ERR_CANCELLED) {
        e->is_unsure = true;
    }
    e2b_set_phase(e, E2B_PHASE_IDLE);
}

static void
on_vars(void *ctx, const struct sandbox_vars *vars, const struct error *err)
{
    struct e2b *e = ctx;
    sandbox_vars_fn done = e->vars_done;

    e->vars_done = NULL;
    end_asking(e, err);
    e2b_enter(e);
    done(e->op_ctx, vars, err);
    e2b_leave(e);
}

static void
on_saved(void *ctx, const struct sandbox_saved *saved, const struct error *err)
{
    struct e2b *e = ctx;
    sandbox_saved_fn done = e->saved_done;

    e->saved_done = NULL;
    end_asking(e, err);
    e2b_enter(e);
    done(e->op_ctx, saved, err);
    e2b_leave(e);
}

static void
start_vars(struct e2b *e)
{
    e->runner->ops->vars(e->runner, on_vars, e);
}

static void
start_save(struct e2b *e)
{
    e->runner->ops->snapshot(e->runner, e->fd, on_saved, e);
}

static void
start_bring_back(struct e2b *e)
{
    e->runner->ops->restore(e->runner, e->fd, on_saved, e);
}

static void
begin_runner_op(struct e2b *e, int fd, void *ctx, void (*start)(struct e2b *e))
{
    struct error err = {0};

    e->op_ctx = ctx;
    e->fd = fd;
    e2b_set_phase(e, E2B_PHASE_BUSY);
    if (e->runner != NULL && e->runner_ready) {
        e2b_begin(e, start);
        return;
    }
    error_fill(&err, ERR_SANDBOX, "no interpreter runs");
    e2b_end_op(e, &err);
}

static void
list_vars(struct sandbox_backend *b, sandbox_vars_fn done, void *ctx)
{
    struct e2b *e = (struct e2b *)b;

    e->vars_done = done;
    begin_runner_op(e, -1, ctx, start_vars);
}

static void
save(struct sandbox_backend *b, int fd, sandbox_saved_fn done, void *ctx)
{
    struct e2b *e = (struct e2b *)b;

    e->saved_done = done;
    begin_runner_op(e, fd, ctx, start_save);
}

static void
bring_back(struct sandbox_backend *b, int fd, sandbox_saved_fn done, void *ctx)
{
    struct e2b *e = (struct e2b *)b;

    e->saved_done = done;
    begin_runner_op(e, fd, ctx, start_bring_back);
}

/* --- the object --- */

static const struct sandbox_ops e2b_ops = {
    .open = open_sandbox,
    .put = e2b_put,
    .run_cell = e2b_run_cell,
    .run_script = e2b_run_script,
    .interrupt = interrupt,
    .list = e2b_list,
    .get = e2b_get,
    .suspend = e2b_suspend,
    .resume = e2b_resume,
    .stop = e2b_stop,
    .vars = list_vars,
    .snapshot = save,
    .restore = bring_back,
    .info = fill_info,
    .retire = e2b_retire,
    .close = close_sandbox,
};

static const char *const languages[] = {
    "python", "javascript", "typescript", "r", "java", "bash", NULL};

/* "no internet", "internet", "pypi.org and 2 more". */
static char *
describe_egress(const struct e2b_config *config)
{
    AUTO_SBUF struct sbuf sb = {0};

    if (config->egress == E2B_INTERNET) {
        return xstrdup("internet");
    }
    if (config->egress == E2B_NO_INTERNET || config->n_hosts == 0) {
        return xstrdup("no internet");
    }
    sbuf_init(&sb, MAX_EGRESS_BYTES);
    sbuf_addf(&sb, "%.253s", config->hosts[0]);
    if (config->n_hosts == 2) {
        sbuf_addf(&sb, " and %.253s", config->hosts[1]);
    } else if (config->n_hosts > 2) {
        sbuf_addf(&sb, " and %zu more", config->n_hosts - 1);
    }
    return sbuf_take(&sb);
}

static void
copy_lists(struct e2b *e, const struct e2b_config *config)
{
    struct e2b_env *envs = xcalloc(config->n_envs + 1, sizeof(envs[0]));
    const char **hosts = xcalloc(config->n_hosts + 1, sizeof(hosts[0]));

    e->envs = xcalloc(config->n_envs + 1, sizeof(e->envs[0]));
    for (size_t i = 0; i < config->n_envs; i++) {
        envs[i].name = xstrdup(config->envs[i].name);
        envs[i].value = xstrdup(config->envs[i].value);
        e->envs[i].name = envs[i].name;
        e->envs[i].value = envs[i].value;
    }
    for (size_t i = 0; i < config->n_hosts; i++) {
        hosts[i] = xstrdup(config->hosts[i]);
    }
    e->config.envs = envs;
    e->config.hosts = hosts;
}

/* Without one of the caller's, so that what is made here is found again while
   this lives. NULL: no random bytes. */
static char *
make_run(void)
{
    char uuid[E2B_UUID_BYTES];
    struct error err = {0};

    return e2b_make_uuid(uuid, &err) == 0 ? xstrdup(uuid) : NULL;
}

static void
copy_config(struct e2b *e, const struct e2b_config *config)
{
    struct e2b_config *c = &e->config;

    *c = *config;
    copy_lists(e, config);
    c->name = xstrdup(config->name != NULL ? config->name : "e2b");
    c->domain =
        xstrdup(str_blank(config->domain) ? E2B_DOMAIN : config->domain);
    c->api_url = str_blank(config->api_url)
                     ? xasprintf("https://api.%s", c->domain)
                     : xstrdup(config->api_url);
    c->sandbox_url = xstrdup(config->sandbox_url);
    c->key_setting = xstrdup(config->key_setting);
    c->template_name =
        xstrdup(str_blank(config->template_name) ? E2B_TEMPLATE
                                                 : config->template_name);
    c->owner = xstrdup(config->owner);
    c->run = config->run != NULL ? xstrdup(config->run) : make_run();
    c->user_agent = xstrdup(config->user_agent);
    if (c->timeout_s <= 0) {
        c->timeout_s = E2B_TIMEOUT_S;
    }
}

void
e2b_fill_api_config(const struct e2b *e, struct e2b_api_config *config,
                    const struct e2b_pair *labels, size_t n_labels)
{
    static const enum e2b_generation generations[] = {
        [E2B_AUTO] = E2B_GENERATION_AUTO,
        [E2B_V1] = E2B_GENERATION_V1,
        [E2B_V2] = E2B_GENERATION_V2};
    static const enum e2b_internet internet[] = {
        [E2B_NO_INTERNET] = E2B_INTERNET_OFF,
        [E2B_INTERNET] = E2B_INTERNET_ON,
        [E2B_SOME_HOSTS] = E2B_INTERNET_HOSTS};
    const struct e2b_config *c = &e->config;

    *config = (struct e2b_api_config){
        .url = c->api_url,
        .key = e->own_key != NULL ? e->own_key : c->key,
        .key_setting = c->key_setting,
        .headers = c->headers,
        .n_headers = c->n_headers,
        .generation = generations[c->version],
        .template_name = c->template_name,
        .timeout_s = c->timeout_s,
        .envs = e->envs,
        .n_envs = c->n_envs,
        .labels = labels,
        .n_labels = n_labels,
        .internet = internet[c->egress],
        .hosts = c->hosts,
        .n_hosts = c->n_hosts,
        .auto_pause = c->auto_pause,
    };
}

/* What is wrong with the settings is told before anything is sent. */
static int
check_config(struct e2b *e, struct error *err)
{
    struct e2b_pair labels[E2B_N_LABELS];
    size_t n = e2b_labels(&e->config, e->id, labels);
    struct e2b_api_config config;
    AUTO_FREE char *url = NULL;

    e2b_fill_api_config(e, &config, labels, n);
    e->api = e2b_api_new(e->loop, e->http, &config, err);
    if (e->api == NULL) {
        return -1;
    }
    url =
        e2b_sandbox_url(e->config.sandbox_url, "i0", 1, e->config.domain, err);
    /* That of a domain is a setting here. */
    if (url == NULL) {
        err->code = ERR_CONFIG;
    }
    return url != NULL ? 0 : -1;
}

struct sandbox_backend *
e2b_new(struct loop *loop, const struct e2b_config *config,
        const struct sandbox_limits *limits, struct error *err)
{
    struct e2b *e = xcalloc(1, sizeof(*e));

    e->loop = loop;
    copy_config(e, config);
    if (limits != NULL) {
        e->limits = *limits;
    }
    if (e->limits.cell_ms <= 0) {
        e->limits.cell_ms = SANDBOX_CELL_MS;
    }
    if (e->limits.output_bytes == 0) {
        e->limits.output_bytes = DEFAULT_OUTPUT;
    }
    e->egress = describe_egress(config);
    e->unsure_egress =
        xasprintf("%s (not confirmed by the service)", e->egress);
    e->base.ops = &e2b_ops;
    e->base.caps = (struct sandbox_caps){
        .name = e->config.name,
        .stateful = true,
        .survives_suspend = true,
        .own_files_api = true,
        .has_network = !str_eq(e->egress, "no internet"),
        .is_remote = true,
        .languages = languages,
    };
    e->fd = -1;
    sbuf_init(&e->errors, MAX_ERRORS_BYTES);
    e->http =
        http_new(loop, &(struct http_config){.user_agent = e->config.user_agent,
                                             .connect_ms = CONNECT_MS});
    if (e2b_make_uuid(e->id, err) < 0 || check_config(e, err) < 0) {
        http_free(e->http);
        destroy(e);
        return NULL;
    }
    return &e->base;
}
