/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The text of load_snippet.py, put into the program by the build.
 */
#ifndef LOAD_LOAD_SNIPPET_INTERNAL_H
#define LOAD_LOAD_SNIPPET_INTERNAL_H

#include <stddef.h>

extern const unsigned char load_snippet_py[];
extern const size_t load_snippet_py_len;

#endif
