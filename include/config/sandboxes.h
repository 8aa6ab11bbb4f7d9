/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * "sandboxes:" of the configuration file: services where cells can run instead
 * of on this machine. What an entry leaves out comes from E2B_API_KEY (unless
 * the entry has a key, a command for it or a header of that kind) and from
 * E2B_DOMAIN, E2B_API_URL and E2B_SANDBOX_URL (all three, unless the entry has
 * one of these addresses: those of two services would not fit). Without an
 * entry called "e2b", that one is made of the environment alone. "local" is
 * none of them.
 */
#ifndef CONFIG_SANDBOXES_H
#define CONFIG_SANDBOXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct config;
struct config_header;
struct error;
struct secret;

#define CONFIG_LOCAL "local"
#define CONFIG_E2B_DOMAIN "e2b.app"

/* An hour in a sandbox. */
struct config_price {
    int64_t vcpu_hour_nanousd;
    int64_t gib_hour_nanousd;
    char *date; /* owned; NULL: not said */
};

struct config_pair {
    char *name;  /* owned */
    char *value; /* owned */
};

enum config_kind { CONFIG_NO_KIND, CONFIG_E2B };
enum config_internet {
    CONFIG_NO_INTERNET,
    CONFIG_INTERNET,
    CONFIG_SOME_HOSTS /* hosts, at least one */
};
enum config_api { CONFIG_API_AUTO, CONFIG_API_V1, CONFIG_API_V2 };

/* Strings are owned, and NULL where neither the file nor the environment has
   one. */
struct config_sandbox {
    char *name;
    enum config_kind kind;
    struct secret *own_key;   /* owned; of the file */
    const struct secret *key; /* borrowed: own_key or that of the environment */
    char *key_command;
    char *template_name;
    char *domain;
    char *api_url;
    char *sandbox_url;
    bool env_address;              /* these three are from the environment */
    struct config_header *headers; /* owned; n_headers of them */
    size_t n_headers;
    struct config_pair *envs; /* owned; n_envs of them */
    size_t n_envs;
    int64_t timeout_s; /* 0: not said */
    enum config_internet internet;
    char **hosts; /* owned; n_hosts of them */
    size_t n_hosts;
    bool auto_pause;
    enum config_api api;
    bool has_price;
    struct config_price price;
};

/* The entry of that name; NULL: none, as for "local". */
const struct config_sandbox *config_find_sandbox(const struct config *c,
                                                 const char *name);

/* Fills err: ERR_CONFIG, no sandbox has that name, and the names that there
   are. */
void config_unknown_sandbox(const struct config *c, const char *name,
                            struct error *err);

/* The host of its API, with a port if one is named. Owned by the caller. */
char *config_sandbox_host(const struct config_sandbox *s);

/*
 * Whether it can be used. Errors: ERR_CONFIG, an address of the environment is
 * none, naming the variable; ERR_AUTH, there is no key and one is needed, which
 * it is but for an address that begins with http://, and says where it goes.
 */
WARN_UNUSED int config_check_sandbox(const struct config *c,
                                     const struct config_sandbox *s,
                                     struct error *err);

#endif
