/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The demonstration: its questions, and what is said around them. The answers
 * are in share/examples/demo.replay.
 */
#ifndef UI_DEMO_INTERNAL_H
#define UI_DEMO_INTERNAL_H

#include <stddef.h>

struct view;

/* The questions in order; NULL behind the last. */
const char *demo_question(size_t i);

void demo_say_begin(struct view *v);
void demo_say_end(struct view *v);

#endif
