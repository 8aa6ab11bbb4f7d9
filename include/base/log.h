/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The log: a file, never the terminal. Control characters are escaped and
 * registered secrets are replaced before a line is written. Without log_open
 * nothing is written anywhere.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>

#include "base/cleanup.h"

struct error;

enum log_level { LOG_LEVEL_ERR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DBG };

/*
 * Opens path for appending, mode 0600; lines above level are dropped.
 * Errors: ERR_IO.
 */
WARN_UNUSED int log_open(const char *path, enum log_level level,
                         struct error *err);
void log_close(void);

/* A text that must never be written; secret.c registers what it holds. */
void log_hide(const char *text);
void log_unhide(const char *text);

/* Adds text with every hidden one replaced, for messages that quote what came
   from outside. */
struct sbuf;
void log_add_hidden(struct sbuf *sb, const char *text, size_t len);

/* A file that logs defines LOG_MODULE before it uses these. */
#define LOG_ERR(...) log_write(LOG_LEVEL_ERR, LOG_MODULE, __VA_ARGS__)
#define LOG_WARN(...) log_write(LOG_LEVEL_WARN, LOG_MODULE, __VA_ARGS__)
#define LOG_INFO(...) log_write(LOG_LEVEL_INFO, LOG_MODULE, __VA_ARGS__)
#define LOG_DBG(...) log_write(LOG_LEVEL_DBG, LOG_MODULE, __VA_ARGS__)

void log_write(enum log_level level, const char *module, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
