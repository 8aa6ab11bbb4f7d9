/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "warden/warden_internal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "warden/orders.h"

#define MAX_PROCESSES 8192
#define MAX_LIST_BYTES 65536
#define MAX_STOP_ROUNDS 50
#define PAUSE_NS 1000000

struct process {
    pid_t pid;
    pid_t parent;
};

static struct process found[MAX_PROCESSES];
static size_t n_found;

static size_t
read_small(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;

    while (fd >= 0 && len < size - 1) {
        ssize_t n = read(fd, text + len, size - 1 - len);

        if (n <= 0)
            break;
        len += (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    text[len] = '\0';
    return len;
}

static void
add_children_of_thread(pid_t pid, const char *thread)
{
    static char list[MAX_LIST_BYTES];
    char path[64];
    char *p = list;

    snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)pid,
             thread);
    read_small(path, list, sizeof(list));
    while (n_found < MAX_PROCESSES) {
        char *end;
        long child = strtol(p, &end, 10);

        if (end == p || child <= 1)
            return;
        found[n_found++] = (struct process){(pid_t)child, pid};
        p = end;
    }
}

static void
add_children(pid_t pid)
{
    char path[64];
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (dir == NULL)
        return;
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (isdigit((unsigned char)entry->d_name[0]))
            add_children_of_thread(pid, entry->d_name);
    closedir(dir);
}

static void
find_all(void)
{
    n_found = 0;
    add_children(getpid());
    for (size_t i = 0; i < n_found; i++)
        add_children(found[i].pid);
}

static pid_t
parent_of(pid_t pid)
{
    char path[64];
    char text[512];
    const char *p;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    read_small(path, text, sizeof(text));
    /* The name in parentheses may hold anything. */
    p = strrchr(text, ')');
    return p != NULL && strlen(p) > 4 ? (pid_t)strtol(p + 4, NULL, 10) : 0;
}

/* By a descriptor: its number may have gone to a process of the user's own
   since it was read. */
static void
send_signal(const struct process *p, int signo)
{
    int fd = (int)syscall(SYS_pidfd_open, p->pid, 0u);
    pid_t parent = parent_of(p->pid);

    if (fd < 0)
        return;
    if (parent == p->parent || parent == getpid())
        syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0u);
    close(fd);
}

/*
 * Stopped first, until no new one appears: whatever forks as fast as it is
 * killed would otherwise go on for ever, while what is stopped keeps its place
 * below the limit of processes.
 */
static void
kill_all(void)
{
    size_t last = 0;

    for (int round = 0; round < MAX_STOP_ROUNDS; round++) {
        find_all();
        if (n_found == last && round > 0)
            break;
        last = n_found;
        for (size_t i = 0; i < n_found; i++)
            send_signal(&found[i], SIGSTOP);
    }
    for (size_t i = 0; i < n_found; i++)
        send_signal(&found[i], SIGKILL);
}

void
warden_hunt(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    pid_t pid;

    for (;;) {
        kill_all();
        do {
            pid = waitpid(-1, NULL, WNOHANG);
        } while (pid > 0);
        if (pid < 0 && errno == ECHILD)
            return;
        nanosleep(&pause, NULL);
    }
}
