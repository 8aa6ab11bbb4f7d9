/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_system_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "base/utf8.h"

#define MAX_RELEASE_BYTES 65536u
#define MAX_VALUE_BYTES 1024u
#define MAX_MOUNTS_BYTES (4u << 20)
#define MAX_SMALL_BYTES 65536u
#define MAX_VERSION 1000

/* --- os-release --- */

static const struct {
    const char *id;
    enum local_distro distro;
} distros[] = {
    {"ubuntu", LOCAL_DISTRO_UBUNTU}, {"debian", LOCAL_DISTRO_DEBIAN},
    {"rhel", LOCAL_DISTRO_RHEL},     {"centos", LOCAL_DISTRO_RHEL},
    {"rocky", LOCAL_DISTRO_RHEL},    {"almalinux", LOCAL_DISTRO_RHEL},
    {"ol", LOCAL_DISTRO_RHEL},       {"fedora", LOCAL_DISTRO_FEDORA},
    {"suse", LOCAL_DISTRO_SUSE},     {"opensuse", LOCAL_DISTRO_SUSE},
    {"sles", LOCAL_DISTRO_SUSE},     {"opensuse-leap", LOCAL_DISTRO_SUSE},
    {"arch", LOCAL_DISTRO_ARCH},     {"opensuse-tumbleweed", LOCAL_DISTRO_SUSE},
    {"alpine", LOCAL_DISTRO_ALPINE},
};

/* What derivatives with version numbers of their own are made from. */
static const struct {
    const char *codename;
    int version;
} ubuntu_releases[] = {
    {"focal", 2004}, {"jammy", 2204},    {"mantic", 2310},
    {"noble", 2404}, {"oracular", 2410}, {"plucky", 2504},
};

struct release {
    struct sbuf id;
    struct sbuf id_like;
    struct sbuf version_id;
    struct sbuf pretty_name;
    struct sbuf name;
    struct sbuf ubuntu_codename;
};

static enum local_distro
find_distro(const char *id)
{
    for (size_t i = 0; i < LEN(distros); i++)
        if (str_eq(id, distros[i].id))
            return distros[i].distro;
    return LOCAL_DISTRO_OTHER;
}

/* By the nearest relative: the first of the words that is known. */
static enum local_distro
find_like(const char *words)
{
    AUTO_FREE char *copy = xstrdup(words);
    char *rest = copy;
    char *word;

    for (word = strsep(&rest, " "); word != NULL; word = strsep(&rest, " ")) {
        enum local_distro distro = find_distro(word);

        if (distro != LOCAL_DISTRO_OTHER)
            return distro;
    }
    return LOCAL_DISTRO_OTHER;
}

/* "24.04" as 2404, "12" as 1200; 0 for what is none. */
static int
parse_version(const char *text)
{
    char *end = NULL;
    long major = strtol(text, &end, 10);
    long minor = 0;

    if (end == text || major <= 0 || major > MAX_VERSION)
        return 0;
    if (*end == '.')
        minor = strtol(end + 1, NULL, 10);
    return (int)(major * 100 + (minor > 0 && minor < 100 ? minor : 0));
}

/* A value as a shell would read it, as far as os-release may have it. */
static void
parse_value(const char *text, size_t len, struct sbuf *value)
{
    char quote = '\0';

    sbuf_clear(value);
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (quote == '\0' && (c == '"' || c == '\'')) {
            quote = c;
        } else if (quote != '\0' && c == quote) {
            quote = '\0';
        } else if (quote == '\0' && (c == ' ' || c == '\t' || c == '\r')) {
            return;
        } else {
            if (c == '\\' && quote != '\'' && i + 1 < len)
                c = text[++i];
            if (c != '\0')
                sbuf_add_char(value, c);
        }
    }
}

static void
parse_line(const char *line, size_t len, struct release *r)
{
    const struct {
        const char *key;
        struct sbuf *value;
    } keys[] = {
        {"ID", &r->id},
        {"ID_LIKE", &r->id_like},
        {"VERSION_ID", &r->version_id},
        {"PRETTY_NAME", &r->pretty_name},
        {"NAME", &r->name},
        {"UBUNTU_CODENAME", &r->ubuntu_codename},
    };
    const char *equals = memchr(line, '=', len);
    size_t key_len = equals != NULL ? (size_t)(equals - line) : 0;

    for (size_t i = 0; i < LEN(keys); i++)
        if (key_len == strlen(keys[i].key) &&
            memcmp(line, keys[i].key, key_len) == 0)
            parse_value(equals + 1, len - key_len - 1, keys[i].value);
}

static void
set_name(struct local_system *system, const char *name)
{
    AUTO_SBUF struct sbuf clean = {0};
    size_t len;

    sbuf_init(&clean, 4 * MAX_VALUE_BYTES);
    utf8_add_repaired(&clean, name, strlen(name));
    len =
        clean.len < sizeof(system->name) ? clean.len : sizeof(system->name) - 1;
    if (len < clean.len)
        len -= utf8_pending(clean.data, len);
    memcpy(system->name, clean.data, len);
    system->name[len] = '\0';
}

static void
conclude(const struct release *r, struct local_system *system)
{
    bool is_itself;

    system->distro = find_distro(r->id.data);
    is_itself = system->distro != LOCAL_DISTRO_OTHER;
    if (!is_itself)
        system->distro = find_like(r->id_like.data);
    /* Rebuilds of RHEL have its numbers; other relatives have their own. */
    if (is_itself || system->distro == LOCAL_DISTRO_RHEL)
        system->version = parse_version(r->version_id.data);
    for (size_t i = 0; !is_itself && i < LEN(ubuntu_releases); i++)
        if (system->distro == LOCAL_DISTRO_UBUNTU &&
            str_eq(r->ubuntu_codename.data, ubuntu_releases[i].codename))
            system->version = ubuntu_releases[i].version;
    set_name(system,
             r->pretty_name.len > 0 ? r->pretty_name.data : r->name.data);
}

void
local_system_parse_release(const char *text, size_t len,
                           struct local_system *system)
{
    struct release r;
    struct sbuf *values[] = {&r.id,          &r.id_like, &r.version_id,
                             &r.pretty_name, &r.name,    &r.ubuntu_codename};

    for (size_t i = 0; i < LEN(values); i++)
        sbuf_init(values[i], MAX_VALUE_BYTES);
    for (size_t at = 0; at < len;) {
        const char *feed = memchr(text + at, '\n', len - at);
        size_t n = feed != NULL ? (size_t)(feed - text) - at : len - at;

        parse_line(text + at, n, &r);
        at += n + 1;
    }
    conclude(&r, system);
    for (size_t i = 0; i < LEN(values); i++)
        sbuf_fini(values[i]);
}

/* --- mounts --- */

/* The mount point of one line: its fifth field. NULL: the line has none. */
static char *
get_mount_point(const char *line, size_t len)
{
    size_t at = 0;

    for (int field = 0; field < 4; field++) {
        const char *blank = memchr(line + at, ' ', len - at);

        if (blank == NULL)
            return NULL;
        at = (size_t)(blank - line) + 1;
    }
    return xstrndup(line + at, strcspn(line + at, " \n"));
}

/* Whether the kernel ignores a mount on it: these directories are always
   empty otherwise, so that a new procfs shows nothing more. */
static bool
is_permanent_dir(const char *path)
{
    return str_eq(path, "/proc/sys/fs/binfmt_misc") ||
           str_eq(path, "/proc/fs/nfsd");
}

bool
local_system_mounts_say_chroot(const char *mounts)
{
    const char *line = mounts;

    /* Not known, rather than so. */
    if (line[0] == '\0')
        return false;
    while (line[0] != '\0') {
        size_t len = strcspn(line, "\n");
        AUTO_FREE char *point = get_mount_point(line, len);

        if (str_eq(point, "/"))
            return false;
        line += len;
        line += line[0] == '\n';
    }
    return true;
}

char *
local_system_find_mask(const char *mounts)
{
    const char *line = mounts;

    while (line[0] != '\0') {
        size_t len = strcspn(line, "\n");
        AUTO_FREE char *point = get_mount_point(line, len);

        if (point != NULL && str_starts(point, "/proc/") &&
            !is_permanent_dir(point))
            return take_ptr(&point);
        line += len;
        line += line[0] == '\n';
    }
    return NULL;
}

/* --- reading --- */

/* The text of a small file; NULL when it cannot be read. Owned by the caller.
 */
static char *
read_text(const char *path, size_t max)
{
    struct sbuf text;
    struct error ignored = {0};

    sbuf_init(&text, max);
    if (io_read_file(path, &text, &ignored) < 0) {
        sbuf_fini(&text);
        return NULL;
    }
    return sbuf_take(&text);
}

static int64_t
read_number(const char *path)
{
    AUTO_FREE char *text = read_text(path, MAX_SMALL_BYTES);
    AUTO_FREE char *trimmed = text != NULL ? str_trim(text) : NULL;
    int64_t n = -1;

    if (trimmed == NULL || str_to_int(trimmed, 0, INT64_MAX, &n, NULL) < 0)
        return -1;
    return n;
}

static enum local_container
container_by_name(const char *name)
{
    if (name == NULL || str_blank(name))
        return LOCAL_CONTAINER_NONE;
    if (str_starts(name, "docker"))
        return LOCAL_CONTAINER_DOCKER;
    if (str_starts(name, "podman"))
        return LOCAL_CONTAINER_PODMAN;
    if (str_starts(name, "lxc"))
        return LOCAL_CONTAINER_LXC;
    if (str_starts(name, "wsl"))
        return LOCAL_CONTAINER_NONE;
    return LOCAL_CONTAINER_OTHER;
}

/* By the marks that the makers of containers leave. */
static enum local_container
find_container(void)
{
    AUTO_FREE char *by_systemd = NULL;
    AUTO_FREE char *cgroup = NULL;

    if (access("/var/run/secrets/kubernetes.io", F_OK) == 0)
        return LOCAL_CONTAINER_KUBERNETES;
    if (access("/run/.containerenv", F_OK) == 0)
        return LOCAL_CONTAINER_PODMAN;
    if (access("/.dockerenv", F_OK) == 0)
        return LOCAL_CONTAINER_DOCKER;
    by_systemd = read_text("/run/systemd/container", MAX_SMALL_BYTES);
    if (container_by_name(by_systemd) != LOCAL_CONTAINER_NONE)
        return container_by_name(by_systemd);
    if (container_by_name(getenv("container")) != LOCAL_CONTAINER_NONE)
        return container_by_name(getenv("container"));
    cgroup = read_text("/proc/1/cgroup", MAX_SMALL_BYTES);
    if (cgroup == NULL)
        return LOCAL_CONTAINER_NONE;
    if (strstr(cgroup, "/kubepods") != NULL)
        return LOCAL_CONTAINER_KUBERNETES;
    if (strstr(cgroup, "/docker") != NULL)
        return LOCAL_CONTAINER_DOCKER;
    if (strstr(cgroup, "/libpod") != NULL)
        return LOCAL_CONTAINER_PODMAN;
    return strstr(cgroup, "/lxc") != NULL ? LOCAL_CONTAINER_LXC
                                          : LOCAL_CONTAINER_NONE;
}

char *
local_system_read_mounts(void)
{
    char *text = read_text("/proc/self/mountinfo", MAX_MOUNTS_BYTES);

    return text != NULL ? text : xstrdup("");
}

void
local_system_read(struct local_system *system)
{
    AUTO_FREE char *release = read_text("/etc/os-release", MAX_RELEASE_BYTES);
    AUTO_FREE char *mounts = local_system_read_mounts();
    struct utsname uts;

    memset(system, 0, sizeof(*system));
    if (release == NULL)
        release = read_text("/usr/lib/os-release", MAX_RELEASE_BYTES);
    if (release != NULL)
        local_system_parse_release(release, strlen(release), system);
    system->container = find_container();
    system->is_chroot = local_system_mounts_say_chroot(mounts);
    system->is_root = geteuid() == 0;
    /* The second one, which has namespaces, writes it in lower case. */
    system->is_wsl1 =
        uname(&uts) == 0 && strstr(uts.release, "-Microsoft") != NULL;
    system->max_userns = read_number("/proc/sys/user/max_user_namespaces");
    system->userns_clone =
        read_number("/proc/sys/kernel/unprivileged_userns_clone");
    system->apparmor_restricts =
        read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    system->has_bwrap_profile =
        access("/etc/apparmor.d/bwrap-userns-restrict", F_OK) == 0;
}
