/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How many elements an array has. Of the array itself only: a pointer to its
 * first element gives nonsense, about which compilers warn.
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

#endif
