/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/secret.h"
#include "base/str.h"
#include "config/config_internal.h"
#include "config/services_internal.h"

#define MAX_FILE_BYTES (256u << 10)

void
config_init(struct config *c)
{
    struct error err = {0};

    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < config_n_keys; i++) {
        const struct config_key *key = &config_keys[i];
        int rc = 0;

        if (key->value == NULL)
            continue;
        rc = config_assign(c, key, key->value, &err);
        assert(rc == 0);
        (void)rc;
    }
}

void
config_fini(struct config *c)
{
    for (size_t i = 0; i < config_n_keys; i++) {
        void *field = (char *)c + config_keys[i].offset;

        if (config_keys[i].type == CONFIG_TEXT)
            free(*(char **)field);
        else if (config_keys[i].type == CONFIG_SECRET)
            secret_free(*(struct secret **)field);
    }
    free(c->question);
    free(c->replay_file);
    free(c->config_file);
    free(c->key_source);
    config_free_headers(c);
    config_free_sandboxes(c);
    config_free_services(c);
    for (size_t i = 0; i < c->n_files; i++)
        free(c->files[i]);
    free(c->files);
    for (size_t i = 0; c->overrides != NULL && i < config_n_keys; i++)
        free(c->overrides[i]);
    free(c->overrides);
    memset(c, 0, sizeof(*c));
}

char *
config_default_path(void)
{
    AUTO_FREE char *dir = paths_config_dir();

    return dir != NULL ? paths_join(dir, "config.yaml") : NULL;
}

/* The file must be the user's own and nobody else's to read. */
static int
check_private(const char *path, int fd, struct error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_set_errno(err, ERR_CONFIG, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_CONFIG, "%s is not a regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return err_set(err, ERR_CONFIG, "%s belongs to another user (uid %lu)",
                       path, (unsigned long)st.st_uid);
    if ((st.st_mode & 077) != 0)
        return err_set(err, ERR_CONFIG,
                       "%s may hold a key and can be read by others (mode "
                       "%04o): chmod 600 it",
                       path, (unsigned)(st.st_mode & 07777));
    return 0;
}

static int
read_file(struct config *c, struct error *err)
{
    AUTO_FREE char *path = NULL;
    AUTO_SBUF struct sbuf text = {0};
    AUTO_CLOSE int fd = -1;
    bool had_key = c->api_key != NULL;
    int rc = 0;

    path = c->config_file != NULL ? xstrdup(c->config_file)
                                  : config_default_path();
    if (path == NULL)
        return 0;
    /* O_NONBLOCK: a FIFO in its place must not hang the start. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        if (errno == ENOENT && c->config_file == NULL)
            return 0;
        return err_set_errno(err, ERR_CONFIG, "%s", path);
    }
    if (check_private(path, fd, err) < 0)
        return -1;
    sbuf_init(&text, MAX_FILE_BYTES);
    if (io_read_all(fd, &text, err) < 0) {
        if (err != NULL)
            err->code = ERR_CONFIG;
        return err_wrap(err, "%s", path);
    }
    rc = config_read_yaml(c, path, text.data, text.len, err);
    secret_wipe(text.data, text.len);
    if (rc == 0 && !had_key && c->api_key != NULL) {
        free(c->key_source);
        c->key_source = xstrdup(path);
    }
    return rc;
}

/* One of blanks alone is none. */
static struct secret *
take_env_key(const char *name)
{
    struct secret *key = secret_take_env(name);

    if (key == NULL || !str_blank(secret_expose(key)))
        return key;
    secret_free(key);
    return NULL;
}

/* Uses the secret from the environment as the key. */
static void
use_env_key(struct config *c, struct secret *key, const char *name)
{
    secret_free(c->api_key);
    c->api_key = key;
    free(c->key_source);
    c->key_source = xstrdup(name);
}

static int
read_env(struct config *c, struct error *err)
{
    struct secret *key = take_env_key("ANTHROPIC_API_KEY");
    struct secret *token = take_env_key("ANTHROPIC_AUTH_TOKEN");
    const char *url = getenv("ANTHROPIC_BASE_URL");
    const char *headers = getenv("ANTHROPIC_CUSTOM_HEADERS");
    int rc = config_read_headers(c, headers != NULL ? headers : "", err);

    /* Its values are no longer needed, and one may be a secret. */
    secret_free(secret_take_env("ANTHROPIC_CUSTOM_HEADERS"));
    if (key != NULL) {
        use_env_key(c, key, "ANTHROPIC_API_KEY");
        secret_free(token);
    } else if (token != NULL) {
        use_env_key(c, token, "ANTHROPIC_AUTH_TOKEN");
    }
    if (rc < 0 || str_blank(url))
        return rc;
    if (config_check_address("ANTHROPIC_BASE_URL", url, err) < 0)
        return -1;
    free(c->base_url);
    c->base_url = xstrdup(url);
    return 0;
}

static const struct config_option *
find_long(const char *name, size_t len)
{
    for (size_t i = 0; i < config_n_options; i++) {
        const char *known = config_options[i].name;

        if (strlen(known) == len && memcmp(known, name, len) == 0)
            return &config_options[i];
    }
    return NULL;
}

static const struct config_option *
find_short(char letter)
{
    for (size_t i = 0; i < config_n_options; i++) {
        if (config_options[i].letter != 0 && config_options[i].letter == letter)
            return &config_options[i];
    }
    return NULL;
}

static int
unknown_option(const char *arg, struct error *err)
{
    const char **names = xcalloc(config_n_options, sizeof(*names));
    const char *near = NULL;
    AUTO_FREE char *name = xstrndup(arg, strcspn(arg, "="));

    for (size_t i = 0; i < config_n_options; i++)
        names[i] = config_options[i].name;
    if (str_starts(name, "--"))
        near = str_nearest(name + 2, names, config_n_options);
    free(names);
    if (near != NULL)
        return err_set(err, ERR_USAGE,
                       "unknown option '%s'; the nearest is '--%s'", name,
                       near);
    return err_set(err, ERR_USAGE, "unknown option '%s'; see --help", name);
}

/* The key whose field the option sets, or NULL. */
static const struct config_key *
find_key_of(const struct config_option *o)
{
    for (size_t i = 0; i < config_n_keys; i++) {
        if (config_keys[i].offset == o->offset)
            return &config_keys[i];
    }
    return NULL;
}

/* Sets the field of an option; value is NULL for flags. */
static int
set_option(struct config *c, const struct config_option *o, const char *value,
           struct error *err)
{
    char **field = (char **)((char *)c + o->offset);
    const struct config_key *key = find_key_of(o);

    if (o->type == CONFIG_FLAG) {
        *(bool *)((char *)c + o->offset) = true;
        return 0;
    }
    if (key != NULL) {
        char **slot = NULL;

        if (config_assign(c, key, value, err) < 0) {
            /* It is the option that was typed, and not the key. */
            if (err != NULL && str_starts(err->msg, key->name))
                error_fill(err, ERR_USAGE, "--%s%s", o->name,
                           err->msg + strlen(key->name));
            return -1;
        }
        if (c->overrides == NULL)
            c->overrides = xcalloc(config_n_keys, sizeof(*c->overrides));
        slot = &c->overrides[key - config_keys];
        free(*slot);
        *slot = xstrdup(value);
        return 0;
    }
    if (str_blank(value))
        return err_set(err, ERR_USAGE, "--%s: the value is empty", o->name);
    free(*field);
    *field = xstrdup(value);
    return 0;
}

static void
add_file(struct config *c, const char *path)
{
    c->files = xreallocarray(c->files, c->n_files + 1, sizeof(*c->files));
    c->files[c->n_files++] = xstrdup(path);
}

/* Takes the option at argv[*i], and its value from there or from the next. */
static int
read_option(struct config *c, int argc, char *const *argv, int *i,
            struct error *err)
{
    const char *arg = argv[*i];
    const struct config_option *o = NULL;
    const char *value = NULL;

    if (arg[1] == '-') {
        size_t len = strcspn(arg + 2, "=");

        o = find_long(arg + 2, len);
        value = arg[2 + len] == '=' ? arg + 3 + len : NULL;
    } else {
        o = find_short(arg[1]);
        value = arg[2] != '\0' ? arg + 2 : NULL;
    }
    if (o == NULL)
        return unknown_option(arg, err);
    if (o->type == CONFIG_FLAG) {
        if (value != NULL)
            return err_set(err, ERR_USAGE, "--%s takes no value: '%s'", o->name,
                           value);
        return set_option(c, o, NULL, err);
    }
    if (value == NULL) {
        if (*i + 1 >= argc)
            return err_set(err, ERR_USAGE, "--%s needs %s", o->name,
                           o->argument);
        value = argv[++*i];
    }
    return set_option(c, o, value, err);
}

int
config_read_args(struct config *c, int argc, char *const *argv,
                 struct error *err)
{
    bool only_files = false;

    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];

        if (only_files || arg[0] != '-' || arg[1] == '\0') {
            if (arg[0] == '\0')
                return err_set(err, ERR_USAGE, "a file name is empty");
            add_file(c, arg);
        } else if (str_eq(arg, "--")) {
            only_files = true;
        } else if (read_option(c, argc, argv, &i, err) < 0) {
            return -1;
        }
    }
    return 0;
}

int
config_read_rest(struct config *c, struct error *err)
{
    int rc = read_file(c, err);

    /* Also after an error: the environment is wiped. */
    if (read_env(c, rc == 0 ? err : NULL) < 0)
        rc = -1;
    config_fill_sandboxes(c);
    if (rc < 0 || c->overrides == NULL)
        return rc;
    for (size_t i = 0; i < config_n_keys; i++) {
        if (c->overrides[i] != NULL &&
            config_assign(c, &config_keys[i], c->overrides[i], err) < 0)
            return -1;
    }
    if (config_check_sandbox_name(c, c->sandbox, "--sandbox", err) < 0) {
        if (err != NULL)
            err->code = ERR_USAGE;
        return -1;
    }
    return 0;
}
