/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How the program's voices look, by name; the terminal's own palette is used,
 * so that every theme stays readable.
 */
#ifndef TERM_STYLE_H
#define TERM_STYLE_H

enum style {
    STYLE_PLAIN,
    STYLE_DIM,     /* notices, thinking, captions, margins */
    STYLE_STRONG,  /* column names, names in a load report */
    STYLE_CODE,    /* code as it stands */
    STYLE_WARNING, /* warning: */
    STYLE_FAILURE, /* error: */
    STYLE_PROMPT
};

/* Parameters for SGR, without the sequence around them; "0" for plain. */
const char *style_sgr(enum style style);

#endif
