/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef TESTS_HELPERS_BPF_EVAL_H
#define TESTS_HELPERS_BPF_EVAL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Runs a classic BPF program as seccomp would, for tests: it can evaluate the
 * filter of another architecture and never touches the running process.
 */

/*
 * Returns false for what the kernel's checker refuses: an unknown instruction,
 * a jump or a load out of range, no result at the end.
 */
bool bpf_eval_valid(const struct sock_filter *code, size_t len);

/* Runs a valid program on the data of one system call; returns its result. */
uint32_t bpf_eval_run(const struct sock_filter *code, size_t len,
                      const struct seccomp_data *data);

#endif
