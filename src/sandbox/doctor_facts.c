/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/sbuf.h"
#include "base/str.h"
#include "sandbox/doctor_internal.h"
#include "sandbox/local_level_internal.h"
#include "sandbox/local_probe_internal.h"
#include "sandbox/local_seccomp_internal.h"
#include "sandbox/local_watchdog_internal.h"

#define MAX_PATTERN_BYTES 4096u
#define MAX_PART 1000

int
doctor_parse_version(const char *text)
{
    const char *p = strpbrk(text, "0123456789");
    long parts[3] = {0};

    if (p == NULL)
        return 0;
    for (size_t i = 0; i < 3; i++) {
        char *end = NULL;

        parts[i] = strtol(p, &end, 10);
        if (end == p || parts[i] < 0 || parts[i] > MAX_PART)
            return 0;
        if (*end != '.' || end[1] < '0' || end[1] > '9')
            break;
        p = end + 1;
    }
    return (int)(parts[0] * 10000 + parts[1] * 100 + parts[2]);
}

void
doctor_take_version(struct doctor_facts *f, const char *said)
{
    if (str_starts(said, "bubblewrap ")) {
        f->bwrap_version = doctor_parse_version(said);
        return;
    }
    free(f->bwrap_other);
    f->bwrap_other = xstrndup(said, strcspn(said, "\n"));
}

/* --- the kernel --- */

static bool
has_pidfd(void)
{
    AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, getpid(), 0u);

    return fd >= 0;
}

static bool
has_openat2(void)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC};
    AUTO_CLOSE int fd =
        (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));

    return fd >= 0;
}

static void
gather_kernel(struct doctor_facts *f)
{
    struct utsname uts;

    if (uname(&uts) == 0) {
        f->machine = xstrdup(uts.machine);
        f->kernel = xstrdup(uts.release);
        f->kernel_version = doctor_parse_version(uts.release) / 100;
    }
    f->has_filter = local_seccomp_native_arch() != 0;
    f->has_pidfd = has_pidfd();
    f->has_openat2 = has_openat2();
    f->landlock_abi = local_level_landlock();
}

/* --- what is found --- */

static void
gather_bwrap(struct doctor_facts *f, struct local_env *env,
             const struct local_config *config)
{
    struct error err = {0};
    struct stat st;

    if (local_env_find_bwrap(env, config->bwrap, &err) < 0) {
        f->bwrap_error = xstrdup(err.msg);
        return;
    }
    f->bwrap = xstrdup(env->bwrap);
    if (stat(env->bwrap, &st) == 0) {
        f->bwrap_owner = st.st_uid;
        f->bwrap_writable = (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    }
}

static void
gather_warden(struct doctor_facts *f, struct local_env *env,
              const struct local_config *config)
{
    struct error err = {0};

    if (local_env_find_warden(env, config->warden, &err) < 0)
        f->warden_error = xstrdup(err.msg);
    else
        f->warden = xstrdup(env->warden);
}

static void
gather_workspace(struct doctor_facts *f, struct local_env *env,
                 const struct local_config *config)
{
    struct error err = {0};
    struct statvfs fs;

    f->free_bytes = UINT64_MAX;
    if (local_env_make_workspace(env, config->parent_dir, &err) < 0) {
        f->workspace_error = xstrdup(err.msg);
        return;
    }
    f->workspace = paths_dir(env->dir);
    f->free_bytes = local_watchdog_free(env->workspace_fd, &f->reserve_bytes);
    f->noexec =
        fstatvfs(env->workspace_fd, &fs) == 0 && (fs.f_flag & ST_NOEXEC) != 0;
}

/* Processes and threads of a user: what RLIMIT_NPROC counts. */
static int64_t
count_tasks(uid_t uid)
{
    int64_t n = 0;
    struct dirent *entry;
    DIR *dir = opendir("/proc");

    if (dir == NULL)
        return 0;
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[64];
        struct stat st;

        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            strlen(entry->d_name) > 16)
            continue;
        snprintf(path, sizeof(path), "/proc/%.16s/task", entry->d_name);
        /* A link for each thread, and two of the directory's own. */
        if (stat(path, &st) == 0 && st.st_uid == uid && st.st_nlink > 2)
            n += (int64_t)st.st_nlink - 2;
    }
    closedir(dir);
    return n;
}

static void
gather_limits(struct doctor_facts *f)
{
    struct rlimit limit = {0};

    f->n_tasks = count_tasks(f->uid);
    f->max_tasks = -1;
    if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        f->max_tasks = (int64_t)limit.rlim_cur;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY)
        f->max_files = (int64_t)limit.rlim_cur;
}

static void
gather_core_pattern(struct doctor_facts *f)
{
    AUTO_SBUF struct sbuf text = {0};
    struct error ignored = {0};

    sbuf_init(&text, MAX_PATTERN_BYTES);
    if (io_read_file("/proc/sys/kernel/core_pattern", &text, &ignored) == 0)
        f->core_pattern = str_trim(text.data);
}

static void
gather_mask(struct doctor_facts *f)
{
    AUTO_FREE char *mounts = local_system_read_mounts();

    f->mask = local_system_find_mask(mounts);
}

void
doctor_facts_gather(struct doctor_facts *f, struct local_env *env,
                    const struct local_config *config, const char *helper)
{
    struct error err = {0};

    local_system_read(&f->system);
    f->level = config->isolation;
    f->no_proc = local_level(f->level)->no_proc;
    gather_kernel(f);
    f->is_root = geteuid() == 0;
    f->uid = geteuid();
    if (local_env_find_identity(env, config, &err) < 0)
        f->identity_error = xstrdup(err.msg);
    /* Nothing is run then; what is there is seen as root sees it. */
    env->drop = env->drop && f->identity_error == NULL;
    f->drops = env->drop;
    if (env->drop)
        f->uid = env->uid;
    if (f->level == LOCAL_REDUCED)
        gather_warden(f, env, config);
    else
        gather_bwrap(f, env, config);
    memset(&err, 0, sizeof(err));
    if (local_env_find_python(env, config->python, &err) < 0)
        f->python_error = xstrdup(err.msg);
    else
        f->python = xstrdup(env->python);
    if (f->identity_error == NULL)
        gather_workspace(f, env, config);
    gather_limits(f);
    gather_core_pattern(f);
    gather_mask(f);
    memset(&err, 0, sizeof(err));
    f->helper = paths_helper(helper, &err);
    if (f->helper == NULL)
        f->helper_error = xstrdup(err.msg);
}

void
doctor_facts_fini(struct doctor_facts *f)
{
    char *owned[] = {
        f->machine,
        f->kernel,
        f->identity_error,
        f->bwrap,
        f->bwrap_error,
        f->bwrap_other,
        f->warden,
        f->warden_error,
        f->scope_why,
        f->mask,
        f->python,
        f->python_error,
        f->workspace,
        f->python_version,
        f->workspace_error,
        f->helper,
        f->helper_error,
        f->core_pattern,
        f->sandbox_says,
        f->cell_error,
        f->interpreter_error,
        f->modules[0].text,
        f->modules[1].text,
    };

    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        free(owned[i]);
    memset(f, 0, sizeof(*f));
}

/* --- modules --- */

const char *const doctor_module_names[DOCTOR_MODULES] = {"pandas",
                                                         "matplotlib"};

const char doctor_cell_code[] =
    "def _look():\n"
    "    import importlib, sys\n"
    "    print('python', '%d.%d.%d' % sys.version_info[:3], sep='\\t')\n"
    "    for name in ('pandas', 'matplotlib'):\n"
    "        try:\n"
    "            module = importlib.import_module(name)\n"
    "            found = 'ok', str(module.__version__)\n"
    "        except Exception as exc:\n"
    "            found = 'bad', '%s: %s' % (type(exc).__name__, exc)\n"
    "        line = [name, found[0], found[1].split('\\n')[0][:200]]\n"
    "        print(*line, sep='\\t')\n"
    "_look()\n";

static void
take_line(struct doctor_facts *f, char *line)
{
    char *name = strsep(&line, "\t");
    char *state;

    if (str_eq(name, "python") && line != NULL) {
        free(f->python_version);
        f->python_version = xstrdup(line);
        return;
    }
    state = strsep(&line, "\t");
    for (size_t i = 0; i < DOCTOR_MODULES; i++) {
        struct doctor_module *m = &f->modules[i];

        if (!str_eq(name, doctor_module_names[i]) || line == NULL)
            continue;
        m->trial = str_eq(state, "ok") ? DOCTOR_WORKED : DOCTOR_FAILED;
        free(m->text);
        m->text = xstrdup(line);
    }
}

void
doctor_take_modules(struct doctor_facts *f, const char *printed)
{
    AUTO_FREE char *copy = xstrdup(printed);
    char *rest = copy;
    char *line;

    for (line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n"))
        take_line(f, line);
}
