/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "sandbox/local_watchdog_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define MAX_PROCESSES 1024u
/* Of /proc/PID/stat, behind the name. */
#define FIELDS_TO_CPU 12
#define FIELDS_TO_START 20
#define MAX_LIST_BYTES 16384u
#define MAX_STOP_ROUNDS 20
#define MAX_SHARED 32u
#define MAX_LOOKED_AT 16u
/* A cell can make each of these looks take 100 ms, by tens of thousands of
   mappings, while nothing else is done. */
#define MAX_LOOK_MS 50
#define MAX_RESERVE ((uint64_t)1 << 30)
#define RESERVE_PART 20u /* of the file system: 5 % */
#define MAX_FILES_RESERVE 50000u

struct tree {
    pid_t pids[MAX_PROCESSES];
    size_t n;
};

/* Returns the bytes read into text, which is then ended by NUL; 0: none. */
static size_t
read_small(const char *path, char *text, size_t size)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;

    while (fd >= 0 && len < size - 1) {
        ssize_t n = read(fd, text + len, size - 1 - len);

        if (n <= 0)
            break;
        len += (size_t)n;
    }
    text[len] = '\0';
    return len;
}

static void
add_children_of_thread(struct tree *t, pid_t pid, const char *thread)
{
    char path[320];
    char list[MAX_LIST_BYTES];
    char *p = list;

    snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, thread);
    read_small(path, list, sizeof(list));
    while (t->n < MAX_PROCESSES) {
        char *end;
        long child = strtol(p, &end, 10);

        if (end == p || child <= 1)
            return;
        t->pids[t->n++] = (pid_t)child;
        p = end;
    }
}

static void
add_children(struct tree *t, pid_t pid)
{
    char path[64];
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (dir == NULL)
        return;
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (entry->d_name[0] != '.')
            add_children_of_thread(t, pid, entry->d_name);
    closedir(dir);
}

/*
 * What a file in /proc says of a process. The main thread may have ended before
 * the others: its own file then says that there is no memory, as if all had,
 * and that of any other thread has what they all share. Returns 0 when none
 * says anything.
 */
static uint64_t
read_of_threads(pid_t pid, const char *file, uint64_t (*parse)(const char *))
{
    char path[320];
    char text[2048];
    struct dirent *entry;
    uint64_t found = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    if (read_small(path, text, sizeof(text)) > 0)
        found = parse(text);
    if (found > 0)
        return found;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (dir == NULL)
        return 0;
    for (entry = readdir(dir); entry != NULL && found == 0;
         entry = readdir(dir)) {
        snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", (int)pid,
                 entry->d_name, file);
        if (entry->d_name[0] != '.' && read_small(path, text, sizeof(text)) > 0)
            found = parse(text);
    }
    closedir(dir);
    return found;
}

static uint64_t
parse_resident(const char *text)
{
    char *end;

    strtoull(text, &end, 10);
    return (uint64_t)strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t
resident_bytes(pid_t pid)
{
    return read_of_threads(pid, "statm", parse_resident);
}

static uint64_t
parse_proportional(const char *text)
{
    const char *line = strstr(text, "\nPss:");

    return line != NULL ? (uint64_t)strtoull(line + 5, NULL, 10) * 1024 : 0;
}

/* Its share of the pages that it has in common with others. 0: that cannot be
   read. */
static uint64_t
proportional_bytes(pid_t pid)
{
    return read_of_threads(pid, "smaps_rollup", parse_proportional);
}

static void
find_tree(struct tree *t, pid_t pid)
{
    t->pids[0] = pid;
    t->n = 1;
    for (size_t i = 0; i < t->n; i++)
        add_children(t, t->pids[i]);
}

size_t
local_watchdog_count(pid_t pid)
{
    struct tree t;

    if (pid <= 1)
        return 0;
    find_tree(&t, pid);
    return t.n;
}

/* Which part of what the largest have in memory is theirs: a crowd that spins
   leaves us too little time to look at each. */
static double
own_part(const struct tree *t, uint64_t resident[MAX_PROCESSES])
{
    double sum = 0;
    double own = 0;
    int64_t until_ms = clock_now_ms() + MAX_LOOK_MS;

    for (size_t looked = 0; looked < MAX_LOOKED_AT && looked < t->n &&
                            (looked == 0 || clock_now_ms() < until_ms);
         looked++) {
        size_t largest = 0;
        uint64_t share;

        for (size_t i = 1; i < t->n; i++)
            if (resident[i] > resident[largest])
                largest = i;
        share = proportional_bytes(t->pids[largest]);
        sum += (double)resident[largest];
        /* Without a share it may have ended meanwhile, and holds nothing. */
        if (share == 0 && resident_bytes(t->pids[largest]) > 0)
            share = resident[largest];
        own += (double)share;
        resident[largest] = 0;
    }
    return sum > 0 ? own / sum : 1;
}

/* Finds the tree below pid, what each in it has in memory, and the sum. */
static uint64_t
add_resident(struct tree *t, pid_t pid, uint64_t resident[MAX_PROCESSES])
{
    uint64_t sum = 0;

    t->pids[0] = pid;
    t->n = 1;
    for (size_t i = 0; i < t->n; i++) {
        resident[i] = resident_bytes(t->pids[i]);
        sum += resident[i];
        add_children(t, t->pids[i]);
    }
    return sum;
}

bool
local_watchdog_over_memory(pid_t pid, uint64_t limit)
{
    struct tree t;
    uint64_t resident[MAX_PROCESSES];
    uint64_t sum;

    if (pid <= 1)
        return false;
    sum = add_resident(&t, pid, resident);
    /* What forked children share counts once, but that takes longer to read:
       only where it may matter, and not for what is absurd. */
    if (sum <= limit || sum / MAX_SHARED > limit)
        return sum > limit;
    return (double)sum * own_part(&t, resident) > (double)limit;
}

pid_t
local_watchdog_only_child(pid_t pid)
{
    struct tree t = {.n = 0};

    if (pid > 1)
        add_children(&t, pid);
    return t.n == 1 ? t.pids[0] : 0;
}

uint64_t
local_watchdog_now(void)
{
    struct timespec now = {0};
    uint64_t per_second = (uint64_t)sysconf(_SC_CLK_TCK);

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * per_second +
           (uint64_t)now.tv_nsec * per_second / 1000000000u;
}

uint64_t
local_watchdog_memory(pid_t pid)
{
    struct tree t;
    uint64_t resident[MAX_PROCESSES];
    uint64_t sum;

    if (pid <= 1)
        return 0;
    sum = add_resident(&t, pid, resident);
    return (uint64_t)((double)sum * own_part(&t, resident));
}

/* /proc/PID/stat from the end of the name on; NULL: it is gone. */
static char *
read_stat(pid_t pid, char *text, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    read_small(path, text, size);
    /* The name in parentheses may hold anything. */
    return strrchr(text, ')');
}

static bool
is_computing(char state)
{
    return state == 'R';
}

/* It does something, or will without being told to. */
static bool
is_active(char state)
{
    return strchr("TtZX", state) == NULL;
}

static bool
has_thread(pid_t pid, bool (*is_so)(char state))
{
    char path[64];
    char text[1024];
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (dir == NULL)
        return false;
    for (entry = readdir(dir); entry != NULL && !found; entry = readdir(dir)) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        const char *p =
            thread > 0 ? read_stat(thread, text, sizeof(text)) : NULL;

        found = p != NULL && p[1] == ' ' && is_so(p[2]);
    }
    closedir(dir);
    return found;
}

bool
local_watchdog_is_running(pid_t pid)
{
    char text[1024];
    const char *p = read_stat(pid, text, sizeof(text));

    return p != NULL && p[1] == ' ' && p[2] != 'Z' && p[2] != 'X';
}

/* The sum of n numbers there; 0: it is gone. */
static uint64_t
sum_of_stat(pid_t pid, int fields_before, int n)
{
    char text[1024];
    char *p = read_stat(pid, text, sizeof(text));
    uint64_t sum = 0;

    for (int i = 0; p != NULL && i < fields_before; i++)
        p = strchr(p + 1, ' ');
    for (int i = 0; p != NULL && i < n; i++)
        sum += strtoull(p, &p, 10);
    return sum;
}

/* When a process was started, as local_watchdog_now; 0: it is gone. */
static uint64_t
start_of(pid_t pid)
{
    return sum_of_stat(pid, FIELDS_TO_START, 1);
}

uint64_t
local_watchdog_cpu(pid_t pid)
{
    return sum_of_stat(pid, FIELDS_TO_CPU, 2);
}

/* Sends signo to all below pid that are of its group, or were started since;
   how many they were. */
static size_t
signal_all(pid_t pid, pid_t spared, uint64_t since, int signo)
{
    struct tree t = {.pids = {pid}, .n = 1};
    size_t n = 0;

    for (size_t i = 0; i < t.n; i++) {
        add_children(&t, t.pids[i]);
        if (i == 0 || t.pids[i] == spared ||
            (getpgid(t.pids[i]) != pid && start_of(t.pids[i]) < since))
            continue;
        if (kill(t.pids[i], signo) == 0)
            n++;
    }
    return n;
}

void
local_watchdog_kill_cell(pid_t pid, pid_t spared, uint64_t since)
{
    size_t last = 0;

    if (pid <= 1 || spared <= 1)
        return;
    /* Stopped first, until no new one appears: what forks faster than it is
       counted would otherwise outlive each round. */
    for (int i = 0; i < MAX_STOP_ROUNDS; i++) {
        size_t n = signal_all(pid, spared, since, SIGSTOP);

        if (n == last && i > 0)
            break;
        last = n;
    }
    if (last > 0)
        signal_all(pid, spared, since, SIGKILL);
}

uint64_t
local_watchdog_memory_limit(uint64_t wanted)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    uint64_t half;

    if (pages <= 0 || page <= 0)
        return wanted;
    half = (uint64_t)pages * (uint64_t)page / 2;
    return wanted < half ? wanted : half;
}

uint64_t
local_watchdog_free(int fd, uint64_t *reserve)
{
    struct statvfs fs;
    uint64_t part;

    if (fstatvfs(fd, &fs) != 0 || fs.f_blocks == 0)
        return UINT64_MAX;
    part = (uint64_t)fs.f_blocks * fs.f_frsize / RESERVE_PART;
    *reserve = part < MAX_RESERVE ? part : MAX_RESERVE;
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

uint64_t
local_watchdog_free_files(int fd, uint64_t *reserve)
{
    struct statvfs fs;
    uint64_t part;

    if (fstatvfs(fd, &fs) != 0 || fs.f_files == 0)
        return UINT64_MAX;
    part = (uint64_t)fs.f_files / RESERVE_PART;
    *reserve = part < MAX_FILES_RESERVE ? part : MAX_FILES_RESERVE;
    return (uint64_t)fs.f_favail;
}

/* --- suspending --- */

static bool
has_pid(const struct tree *t, pid_t pid)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->pids[i] == pid)
            return true;
    return false;
}

bool
local_watchdog_can_suspend(pid_t pid, pid_t kernel, bool *is_busy)
{
    struct tree t;

    *is_busy = false;
    if (pid <= 1)
        return false;
    find_tree(&t, pid);
    if (t.n < 2 || (kernel > 1 && !has_pid(&t, kernel)))
        return false;
    for (size_t i = 0; i < t.n && !*is_busy; i++)
        *is_busy = has_thread(t.pids[i], is_computing);
    return true;
}

/* Whether all had stopped before. */
static bool
stop_tree(struct tree *t, pid_t pid)
{
    bool all = true;

    t->pids[0] = pid;
    t->n = 1;
    for (size_t i = 0; i < t->n; i++) {
        /* A signal stops nobody in the middle of a fork: the child comes, and
           runs. Only what was stopped before has no more children than it is
           seen to have. */
        if (has_thread(t->pids[i], is_active)) {
            all = false;
            kill(t->pids[i], SIGSTOP);
        }
        add_children(t, t->pids[i]);
    }
    return all;
}

bool
local_watchdog_suspend(pid_t pid)
{
    struct tree before;
    struct tree t;

    if (pid <= 1)
        return true;
    if (!stop_tree(&before, pid) || !stop_tree(&t, pid))
        return false;
    /* One may have forked and ended between the reading of its parent's
       children and the look at it: the child is with pid 1 by now. */
    for (size_t i = 0; i < t.n; i++)
        if (!has_pid(&before, t.pids[i]))
            return false;
    return true;
}

void
local_watchdog_resume(pid_t pid)
{
    struct tree t;

    if (pid <= 1)
        return;
    find_tree(&t, pid);
    for (size_t i = t.n; i > 0; i--)
        kill(t.pids[i - 1], SIGCONT);
}
