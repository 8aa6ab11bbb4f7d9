/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "main_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/str.h"
#include "claude/claude.h"
#include "config/models.h"
#include "config/sandboxes.h"
#include "config/services.h"
#include "net/http.h"
#include "render/image.h"
#include "sandbox/sandbox.h"
#include "store/recorder.h"
#include "store/session.h"
#include "ui/view.h"

/* Between the pieces of a reply that was written in advance, on a terminal. */
#define DEMO_PACE_MS 12
/* Charts are made as small as the service would make them. */
#define MAX_CHART_PX 1568
#define MAX_CHART_BYTES (4u << 20)

bool
main_is_interactive(const struct config *c)
{
    return c->question == NULL && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

/* Without a directory of its own a session works, but keeps no chart. */
static void
open_session(struct program *p, struct error *why)
{
    AUTO_FREE char *state = paths_state_dir();
    AUTO_FREE char *parent = NULL;

    if (state == NULL) {
        error_fill(why, ERR_IO, "there is no home directory");
        return;
    }
    parent = paths_join(state, "sessions");
    p->session = session_new(parent, why);
}

void
main_set_up_sandbox(struct program *p)
{
    const struct config *c = &p->config;

    p->limits = (struct sandbox_limits){
        .cell_ms = c->cell_seconds * 1000,
        .memory_bytes = (uint64_t)c->memory_mb << 20,
        .output_bytes = (uint64_t)c->output_kb << 10,
        .workspace_bytes = (uint64_t)c->workspace_mb << 20,
        .processes = (int)c->processes,
        .idle_suspend_ms =
            c->idle_suspend_seconds > 0 ? c->idle_suspend_seconds * 1000 : -1,
        .idle_close_ms = c->idle_close_seconds * 1000,
    };
    p->local = (struct local_config){
        .bwrap = c->bwrap,
        .python = c->python,
        .drop_uid_set = c->drop_uid > 0,
        .drop_uid = c->drop_uid > 0 ? (uid_t)c->drop_uid : 0,
        .on_terminal = p->tty != NULL,
    };
    (void)local_isolation_find(c->isolation, &p->local.isolation);
}

static void
tell_left(void *ctx, const char *text)
{
    const struct program *p = ctx;

    view_warning(p->view, "%s", text);
    if (p->app != NULL && !app_is_busy(p->app))
        view_gap(p->view);
}

static int
build_sandbox(struct program *p, struct error *err)
{
    struct sandbox_backend *backend = NULL;

    main_set_up_sandbox(p);
    backend = main_make_backend(p, main_sandbox_name(&p->config), err);
    if (backend == NULL)
        return -1;
    p->sandbox = sandbox_new(p->loop, backend, &p->limits);
    sandbox_on_left(p->sandbox, tell_left, p);
    return 0;
}

static void
build_headers(struct program *p)
{
    const struct config *c = &p->config;

    p->headers = xcalloc(c->n_headers + 1, sizeof(*p->headers));
    for (size_t i = 0; i < c->n_headers; i++)
        p->headers[i] = (struct http_extra_header){
            .name = c->headers[i].name,
            .value = c->headers[i].value,
        };
}

static struct price_rates
make_rates(const int64_t *rates)
{
    return (struct price_rates){
        .input = rates[CONFIG_RATE_INPUT],
        .output = rates[CONFIG_RATE_OUTPUT],
        .cache_write_5m = rates[CONFIG_RATE_WRITE_5M],
        .cache_write_1h = rates[CONFIG_RATE_WRITE_1H],
        .cache_read = rates[CONFIG_RATE_READ],
    };
}

static int
read_prices(struct program *p, struct error *err)
{
    struct config_models models = {0};
    int rc = config_read_models(&models, err);

    for (size_t i = 0; rc == 0 && i < models.n_models; i++) {
        const struct config_model *m = &models.models[i];

        price_table_set(&p->prices, &(struct price){
                                        .model = m->name,
                                        .date = m->date,
                                        .rates = make_rates(m->rates),
                                        .long_above_tokens = m->long_above,
                                        .long_rates = make_rates(m->long_rates),
                                        .max_output_tokens = m->max_output,
                                    });
    }
    config_models_fini(&models);
    return rc;
}

/* The price of the model; NULL when there is none, or nothing is paid. A budget
   that cannot be kept is refused before anything is asked. */
static int
find_price(struct program *p, const struct price **price, struct error *err)
{
    const struct config *c = &p->config;
    const char *key = c->budget_nanousd > 0 ? "model.budget_usd"
                      : c->turn_nanousd > 0 ? "limits.turn_usd"
                                            : NULL;

    *price = NULL;
    if (p->claude != NULL && claude_is_replay(p->claude))
        return 0;
    *price = price_find(&p->prices, c->model);
    if (*price != NULL || key == NULL)
        return 0;
    return err_set(err, ERR_CONFIG,
                   "%s: there is no price for the model %s, so no budget can "
                   "be kept\nadd it to models.yaml beside config.yaml",
                   key, c->model);
}

/* The person's own system prompt, if there is one. */
static int
read_prompt(struct program *p, struct error *err)
{
    AUTO_FREE char *dir = paths_config_dir();

    if (dir == NULL || p->config.demo)
        return 0;
    p->prompt_path = paths_join(dir, "prompts/system.md");
    return agent_read_prompt(p->prompt_path, &p->prompt, err);
}

/* What is sent: that prompt or the built-in one, and what else the model must
   know of the sandbox. */
static void
make_system(struct program *p)
{
    const char *prompt = p->prompt != NULL ? p->prompt : agent_system_prompt();
    enum local_isolation level = LOCAL_FULL;

    (void)local_isolation_find(p->config.isolation, &level);
    if (!str_eq(main_sandbox_name(&p->config), CONFIG_LOCAL))
        level = LOCAL_FULL;
    p->system = level == LOCAL_REDUCED
                    ? xasprintf("%s\n%s", prompt, agent_reduced_note())
                    : xstrdup(prompt);
}

static const char *
system_prompt(const struct program *p)
{
    return p->system;
}

/* What depends on the sandbox that the session begins with, which is there. */
static void
tell_of_sandbox(struct program *p)
{
    const struct sandbox_caps *caps = sandbox_caps(p->sandbox);
    AUTO_FREE char *note = agent_sandbox_note(caps);
    AUTO_FREE char *before = NULL;

    p->tools = agent_tools(caps);
    if (note == NULL)
        return;
    before = take_ptr(&p->system);
    p->system = xasprintf("%s\n%s", before, note);
}

static int
build_transport(struct program *p, struct error *err)
{
    const struct config *c = &p->config;
    AUTO_FREE char *demo = NULL;
    const char *replay = c->replay_file;
    struct transport_http_config http;

    if (c->demo) {
        demo = paths_data("examples/demo.replay", err);
        if (demo == NULL)
            return -1;
        replay = demo;
    }
    if (replay != NULL) {
        if (transport_replay(p->loop, replay, p->tty != NULL ? DEMO_PACE_MS : 0,
                             &p->transport, err) < 0)
            return -1;
        p->has_transport = true;
        return 0;
    }
    build_headers(p);
    http = (struct transport_http_config){
        .base_url = c->base_url,
        .key = c->api_key,
        .key_in_x_api_key = str_eq(c->key_header, "x-api-key"),
        .api_version = c->api_version,
        .headers = p->headers,
        .n_headers = c->n_headers,
    };
    if (transport_http_needs_key(&http))
        return 0;
    p->http =
        http_new(p->loop, &(struct http_config){
                              .user_agent = PACKAGE_NAME "/" PACKAGE_VERSION,
                              .ca_file = c->ca_file,
                              .ca_name = "model.ca_file",
                          });
    if (transport_http(p->http, &http, &p->transport, err) < 0)
        return -1;
    p->has_transport = true;
    return 0;
}

static enum claude_dialect
find_dialect(const char *name)
{
    if (str_eq(name, "anthropic"))
        return CLAUDE_DIALECT_ANTHROPIC;
    return str_eq(name, "compatible") ? CLAUDE_DIALECT_COMPATIBLE
                                      : CLAUDE_DIALECT_AUTO;
}

static int
build_claude(struct program *p, struct error *err)
{
    const struct config *c = &p->config;

    tell_of_sandbox(p);
    if (build_transport(p, err) < 0)
        return -1;
    if (!p->has_transport)
        return 0;
    p->claude = claude_new(p->loop, &p->transport,
                           &(struct claude_config){
                               .model = c->model,
                               .max_tokens = c->max_tokens,
                               .effort = c->effort,
                               .dialect = find_dialect(c->dialect),
                               .system = system_prompt(p),
                               .tools = p->tools,
                               .max_attempts = (int)c->max_attempts,
                           },
                           err);
    return p->claude != NULL ? 0 : -1;
}

static void
build_ui(struct program *p)
{
    const struct config *c = &p->config;
    struct error why = {0};

    open_session(p, &why);
    p->recorder = recorder_new(p->session);
    p->view = view_new(&(struct view_config){
        .loop = p->loop,
        .out = p->out,
        .tty = p->tty,
        .recorder = p->recorder,
        .graphics = c->graphics,
        .thinking = c->thinking,
        .cell_ms = c->cell_seconds * 1000,
        .no_commands = c->demo || c->question != NULL,
        .run_ends = c->demo || !main_is_interactive(c),
        .hold_words = !isatty(STDOUT_FILENO),
    });
    p->chain = sink_chain_new();
    sink_chain_add(p->chain, &recorder_sink, p->recorder);
    sink_chain_add(p->chain, &view_sink, p->view);
    if (p->session == NULL)
        view_warning(p->view, "charts will not be kept: %s", why.msg);
}

static void *
begin_shrink(void *ctx, const unsigned char *png, size_t len,
             agent_shrunk_fn done, void *done_ctx, struct error *err)
{
    struct program *p = ctx;

    return image_scale(p->loop, png, len,
                       &(struct image_scale_options){
                           .max_side_px = MAX_CHART_PX,
                           .max_bytes = MAX_CHART_BYTES,
                       },
                       done, done_ctx, err);
}

static void
cancel_shrink(void *ctx, void *handle)
{
    (void)ctx;
    image_free(handle);
}

static int
build_app(struct program *p, struct error *err)
{
    const struct config *c = &p->config;
    const struct price *price = NULL;

    if (find_price(p, &price, err) < 0)
        return -1;
    p->app_config = (struct app_config){
        .loop = p->loop,
        .config = &p->config,
        .out = p->out,
        .tty = p->tty,
        .view = p->view,
        .recorder = p->recorder,
        .sandbox = p->sandbox,
        .local = &p->local,
        .limits = &p->limits,
        .leftovers = main_leftovers(p),
        .make_backend = main_make_backend,
        .make_ctx = p,
        .chain = p->chain,
        .is_replay = p->claude != NULL && claude_is_replay(p->claude),
        .version = PACKAGE_VERSION,
        .prompt_path = p->prompt != NULL ? p->prompt_path : NULL,
    };
    p->app = app_new(&p->app_config);
    p->agent = agent_new(&(struct agent_config){
        .loop = p->loop,
        .claude = p->claude,
        .sandbox = p->sandbox,
        .chain = p->chain,
        .max_rounds = (int)c->rounds,
        .cell_ms = c->cell_seconds * 1000,
        .turn_ms = c->turn_seconds * 1000,
        .result_bytes = (size_t)c->result_kb * 1000,
        .result_rows = (size_t)c->result_rows,
        .price = price,
        .max_tokens = c->max_tokens,
        .prompt_bytes = strlen(system_prompt(p)) + strlen(p->tools),
        .budget_nanousd = price != NULL ? c->budget_nanousd : 0,
        .turn_nanousd = price != NULL ? c->turn_nanousd : 0,
        .shrink = str_eq(c->see_charts, "true") ? begin_shrink : NULL,
        .shrink_cancel = cancel_shrink,
        .shrink_ctx = p,
        .on_done = app_turn_done,
        .ctx = p->app,
    });
    app_set_agent(p->app, p->agent);
    return 0;
}

/* The demonstration is about a file of the program's own. */
static int
add_demo_file(struct config *c, struct error *err)
{
    char *path = NULL;

    if (!c->demo)
        return 0;
    if (c->n_files > 0 || c->question != NULL)
        return err_set(err, ERR_USAGE, "--demo takes no file and no question");
    path = paths_data("examples/sales.csv", err);
    if (path == NULL)
        return -1;
    c->files = xcalloc(1, sizeof(*c->files));
    c->files[0] = path;
    c->n_files = 1;
    return 0;
}

int
main_read(struct program *p, struct error *err)
{
    if (add_demo_file(&p->config, err) < 0 || read_prices(p, err) < 0 ||
        config_read_services(&p->config, err) < 0 || read_prompt(p, err) < 0)
        return -1;
    make_system(p);
    return 0;
}

int
main_build(struct program *p, struct error *err)
{
    build_ui(p);
    if (build_sandbox(p, err) < 0 || build_claude(p, err) < 0)
        return -1;
    return build_app(p, err);
}
