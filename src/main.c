/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reads the settings, builds the objects of a session, orders the sinks, runs
 * the loop, and takes everything down again.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "claude/claude.h"
#include "claude/transport.h"
#include "config/config.h"
#include "config/models.h"
#include "model/price.h"
#include "model/sink.h"
#include "net/http.h"
#include "render/image.h"
#include "sandbox/local.h"
#include "sandbox/sandbox.h"
#include "store/recorder.h"
#include "store/session.h"
#include "term/out.h"
#include "term/tty.h"
#include "ui/app.h"
#include "ui/checkup.h"
#include "ui/oneshot.h"
#include "ui/repl.h"
#include "ui/view.h"

#define HELP_BYTES 16384

/* Between the pieces of a reply that was written in advance, on a terminal. */
#define DEMO_PACE_MS 12

/* Everything that lives as long as the run; all owned. */
struct program {
    struct config config;
    struct price_table prices;
    char *prompt;      /* the person's own system prompt; NULL: built in */
    char *prompt_path; /* where it is */
    char *system;      /* the one that is sent */
    struct loop *loop;
    struct out *out;
    struct tty *tty;
    struct session *session;
    struct recorder *recorder;
    struct view *view;
    struct sink_chain *chain;
    struct local_config local;
    struct sandbox_limits limits;
    struct sandbox *sandbox;
    struct http *http;
    struct http_extra_header *headers; /* of config */
    struct transport transport;
    bool has_transport;
    struct claude *claude;
    struct agent *agent;
    struct app *app;
    struct app_config app_config;
    struct repl *repl;
    struct oneshot *oneshot;
    struct checkup *checkup;
    struct loop_signal *signals[3];
    int ended_by;     /* a signal, or 0 */
    bool interrupted; /* by a signal: output need not be waited for */
    bool waiting;     /* all is done, but the reader is slow */
};

/* ---- before anything ------------------------------------------------------
 */

/* Other processes of the same user may not look into this one: its memory
   holds the key. A leak check has to, so sanitizer builds leave it out. */
static void
close_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__)
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

/* A descriptor that was closed by the caller would be taken by the next file
   that is opened, and then be written to. */
static void
open_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0)
            _exit(1);
    }
}

static bool
set_locale(void)
{
    if (setlocale(LC_CTYPE, "") != NULL &&
        str_eq(nl_langinfo(CODESET), "UTF-8"))
        return true;
    /* Text is UTF-8 in memory; a plain C locale would count its bytes. */
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        setlocale(LC_CTYPE, "C");
    return false;
}

/* Plain, to standard output and error. loop: NULL before there is one. */
static struct out *
plain_out(struct loop *loop, bool unicode)
{
    return out_new(&(struct out_config){
        .loop = loop,
        .main_fd = STDOUT_FILENO,
        .side_fd = STDERR_FILENO,
        .unicode = unicode,
    });
}

static int
report(const struct error *err, bool unicode)
{
    struct out *out = plain_out(NULL, unicode);
    struct view *view = view_new(&(struct view_config){.out = out});

    view_error(view, err);
    view_free(view);
    out_free(out);
    return error_exit_status(err->code);
}

/* What was printed last is lost. That its reader went away is no news. */
static void
tell_gone(const struct out *out, bool unicode)
{
    struct error err = {0};

    if (out_gone_errno(out) == EPIPE)
        return;
    error_fill(&err, ERR_IO, "standard output: %s",
               strerror(out_gone_errno(out)));
    (void)report(&err, unicode);
}

static int
print_and_end(enum out_channel ch, bool unicode, const char *text, int status)
{
    struct out *out = plain_out(NULL, unicode);

    out_say(out, ch, text);
    if (out_is_gone(out)) {
        tell_gone(out, unicode);
        status = 141;
    }
    out_free(out);
    return status;
}

static int
print_help(bool unicode)
{
    AUTO_SBUF struct sbuf sb = {0};

    sbuf_init(&sb, HELP_BYTES);
    config_add_help(&sb);
    return print_and_end(OUT_MAIN, unicode, sb.data, 0);
}

static int
print_version(bool unicode)
{
    return print_and_end(OUT_MAIN, unicode,
                         PACKAGE_STRING SANDPIPER_FEATURES
                         "\nLicence GPL-3.0-or-later; there is no warranty.\n",
                         0);
}

/* ---- building -------------------------------------------------------------
 */

/* A person at a terminal, both ways; else lines are read and text is written
   as a script wants it. */
static bool
is_interactive(const struct config *c)
{
    return c->question == NULL && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static bool
is_on_terminal(const struct config *c)
{
    return ((c->demo || c->doctor) && isatty(STDOUT_FILENO)) ||
           is_interactive(c);
}

static int
open_output(struct program *p, bool unicode, struct error *err)
{
    const struct config *c = &p->config;
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    bool sequences = term != NULL && !str_eq(term, "dumb") && term[0] != '\0';
    int columns = 0;
    int rows = 0;

    if (is_on_terminal(c))
        p->tty = tty_open(p->loop, term, err);
    if (p->tty == NULL && (!is_on_terminal(c) || c->doctor)) {
        p->out = plain_out(p->loop, unicode);
        return 0;
    }
    if (p->tty == NULL && err->sys_errno == ENXIO)
        return err_set(err, ERR_IO,
                       "there is no controlling terminal to read keys from\n"
                       "without one: sandpiper -c QUESTION, or lines and "
                       "answers through pipes");
    if (p->tty == NULL)
        return -1;
    p->out = out_new(&(struct out_config){
        .loop = p->loop,
        .main_fd = tty_fd(p->tty),
        .side_fd = tty_fd(p->tty),
        .terminal = true,
        .sequences = sequences,
        .colour = sequences && str_eq(c->color, "auto") &&
                  (no_color == NULL || no_color[0] == '\0'),
        .unicode = unicode,
    });
    tty_size(p->tty, &columns, &rows);
    out_set_size(p->out, columns, rows);
    return 0;
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

static void
set_up_sandbox(struct program *p)
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
build_sandbox(struct program *p)
{
    set_up_sandbox(p);
    p->sandbox = sandbox_new(p->loop, local_new(p->loop, &p->local, &p->limits),
                             &p->limits);
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
    p->system = level == LOCAL_REDUCED
                    ? xasprintf("%s\n%s", prompt, agent_reduced_note())
                    : xstrdup(prompt);
}

static const char *
system_prompt(const struct program *p)
{
    return p->system;
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
                               .tools = agent_tools(),
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
        .run_ends = c->demo || !is_interactive(c),
        .hold_words = !isatty(STDOUT_FILENO),
    });
    p->chain = sink_chain_new();
    sink_chain_add(p->chain, &recorder_sink, p->recorder);
    sink_chain_add(p->chain, &view_sink, p->view);
    if (p->session == NULL)
        view_warning(p->view, "charts will not be kept: %s", why.msg);
}

/* Charts are made as small as the service would make them. */
#define MAX_CHART_PX 1568
#define MAX_CHART_BYTES (4u << 20)

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
        .prompt_bytes = strlen(system_prompt(p)) + strlen(agent_tools()),
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

/* ---- signals --------------------------------------------------------------
 */

static void
on_signal(void *ctx, int signo)
{
    struct program *p = ctx;

    p->interrupted = true;
    if (signo == SIGINT && p->oneshot != NULL && !p->waiting) {
        oneshot_cancel(p->oneshot);
        return;
    }
    p->ended_by = signo;
    loop_stop(p->loop);
}

static bool
is_ignored(int signo)
{
    struct sigaction action;

    return sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int
watch_signals(struct program *p, struct error *err)
{
    static const int SIGNALS[] = {SIGTERM, SIGHUP, SIGINT};

    for (size_t i = 0; i < sizeof(SIGNALS) / sizeof(SIGNALS[0]); i++) {
        /* As nohup left it, or a shell that began us in the background. */
        if (SIGNALS[i] != SIGTERM && is_ignored(SIGNALS[i]))
            continue;
        p->signals[i] = loop_add_signal(p->loop, SIGNALS[i], on_signal, p, err);
        if (p->signals[i] == NULL)
            return -1;
    }
    return 0;
}

/* ---- running --------------------------------------------------------------
 */

static int
start_repl(struct program *p, struct error *err)
{
    AUTO_FREE char *state = paths_state_dir();
    AUTO_FREE char *history =
        state != NULL ? paths_join(state, "history") : NULL;

    p->repl = repl_new(p->app, &p->app_config, history, err);
    if (p->repl == NULL)
        return -1;
    repl_start(p->repl);
    return 0;
}

static int
start_oneshot(struct program *p, struct error *err)
{
    enum oneshot_source source = p->config.demo               ? ONESHOT_DEMO
                                 : p->config.question != NULL ? ONESHOT_QUESTION
                                                              : ONESHOT_STDIN;

    p->oneshot = oneshot_new(p->app, &p->app_config, source, err);
    if (p->oneshot == NULL)
        return -1;
    oneshot_start(p->oneshot);
    return 0;
}

static int
start_checkup(struct program *p, bool unicode, struct error *err)
{
    if (p->config.n_files > 0 || p->config.question != NULL || p->config.demo)
        return err_set(err, ERR_USAGE,
                       "--doctor takes no file, no question and no --demo");
    p->loop = loop_new(err);
    if (p->loop == NULL || open_output(p, unicode, err) < 0 ||
        watch_signals(p, err) < 0)
        return -1;
    set_up_sandbox(p);
    p->checkup = checkup_new(p->loop, p->out, p->tty, &p->local, &p->limits);
    return 0;
}

static int
start(struct program *p, bool unicode, struct error *err)
{
    if (p->config.doctor)
        return start_checkup(p, unicode, err);
    if (add_demo_file(&p->config, err) < 0 || read_prices(p, err) < 0 ||
        read_prompt(p, err) < 0)
        return -1;
    make_system(p);
    p->loop = loop_new(err);
    if (p->loop == NULL || open_output(p, unicode, err) < 0)
        return -1;
    build_ui(p);
    build_sandbox(p);
    if (build_claude(p, err) < 0 || watch_signals(p, err) < 0 ||
        build_app(p, err) < 0)
        return -1;
    if (p->config.demo || !is_interactive(&p->config))
        return start_oneshot(p, err);
    return start_repl(p, err);
}

static void
on_written(void *ctx)
{
    struct program *p = ctx;

    loop_stop(p->loop);
}

/* Off the terminal the reader may take as long as he likes; signals end it. */
static void
wait_for_reader(struct program *p)
{
    if (p->tty != NULL || p->interrupted || out_queued(p->out) == 0)
        return;
    p->waiting = true;
    out_on_written(p->out, on_written, p);
    loop_run(p->loop);
}

static int
exit_status(const struct program *p, bool unicode)
{
    int status = p->checkup != NULL ? checkup_exit_status(p->checkup)
                 : p->repl != NULL  ? repl_exit_status(p->repl)
                                    : oneshot_exit_status(p->oneshot);

    if (p->ended_by != 0)
        return 128 + p->ended_by;
    if (!out_is_gone(p->out) || p->tty != NULL)
        return status;
    /* A turn that ended for it has told why. */
    if (status == 0)
        tell_gone(p->out, unicode);
    return 128 + SIGPIPE;
}

/* In the opposite order of building; each accepts what was never built. */
static void
take_down(struct program *p)
{
    checkup_free(p->checkup);
    repl_free(p->repl);
    oneshot_free(p->oneshot);
    agent_free(p->agent);
    app_free(p->app);
    sandbox_free(p->sandbox);
    claude_free(p->claude);
    if (p->has_transport)
        transport_fini(&p->transport);
    free(p->headers);
    http_free(p->http);
    sink_chain_free(p->chain);
    view_free(p->view);
    recorder_free(p->recorder);
    session_free(p->session);
    out_free(p->out);
    tty_close(p->tty);
    for (size_t i = 0; i < sizeof(p->signals) / sizeof(p->signals[0]); i++)
        loop_signal_remove(p->signals[i]);
    loop_free(p->loop);
    config_fini(&p->config);
    price_table_fini(&p->prices);
    free(p->prompt);
    free(p->prompt_path);
    free(p->system);
    log_close();
}

static int
run(struct program *p, int argc, char **argv, bool unicode)
{
    struct error err = {0};
    const char *log = getenv("SANDPIPER_LOG");
    int status = 0;

    if (config_read_args(&p->config, argc, argv, &err) < 0)
        return report(&err, unicode);
    if (p->config.help)
        return print_help(unicode);
    if (p->config.version)
        return print_version(unicode);
    if (config_read_rest(&p->config, &err) < 0 ||
        (!str_blank(log) && log_open(log, LOG_LEVEL_DBG, &err) < 0))
        return report(&err, unicode);
    if (start(p, unicode, &err) < 0) {
        take_down(p);
        memset(p, 0, sizeof(*p));
        return report(&err, unicode);
    }
    loop_run(p->loop);
    wait_for_reader(p);
    status = exit_status(p, unicode);
    take_down(p);
    memset(p, 0, sizeof(*p));
    return status;
}

int
main(int argc, char **argv)
{
    struct program program = {0};
    bool unicode = false;
    int status = 0;

    open_standard_descriptors();
    close_memory();
    signal(SIGPIPE, SIG_IGN);
    /* So that a file that grows too large is an error that can be told. */
    signal(SIGXFSZ, SIG_IGN);
    unicode = set_locale();
    config_init(&program.config);
    status = run(&program, argc, argv, unicode);
    config_fini(&program.config);
    return status;
}
