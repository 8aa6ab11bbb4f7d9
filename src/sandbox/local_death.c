/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <signal.h>

#include "base/array.h"
#include "sandbox/local_internal.h"

static const struct {
    int signal;
    const char *name;
} signal_names[] = {
    {SIGSEGV, "segmentation fault"},
    {SIGABRT, "aborted"},
    {SIGKILL, "killed"},
    {SIGBUS, "bus error"},
    {SIGFPE, "arithmetic error"},
    {SIGILL, "illegal instruction"},
    {SIGSYS, "forbidden system call"},
    {SIGTERM, "terminated"},
    {SIGXFSZ, "file size limit"},
};

/* bubblewrap gives 128 + signal for a signal. */
void
local_death_add_end(struct sbuf *sb, const struct proc_exit *status)
{
    int signo = status->signal;

    if (signo == 0 && status->code > 128)
        signo = status->code - 128;
    if (signo == 0) {
        sbuf_addf(sb, "exit status %d", status->code);
        return;
    }
    for (size_t i = 0; i < LEN(signal_names); i++)
        if (signal_names[i].signal == signo) {
            sbuf_add_str(sb, signal_names[i].name);
            return;
        }
    sbuf_addf(sb, "signal %d", signo);
}
