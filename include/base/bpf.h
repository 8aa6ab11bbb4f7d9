/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Assembles classic BPF programs of the kind that seccomp runs: forward jumps
 * go to labels and become offsets at the end. It knows nothing of system calls
 * or architectures, loads no program, and needs no other module, so that the
 * picture program can have it too.
 */
#ifndef BASE_BPF_H
#define BASE_BPF_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BPF_BUILD_LABELS = 256, BPF_BUILD_JUMPS = 512 };

/* The label that stands for the next instruction; it is never bound. */
enum { BPF_BUILD_NEXT = 0 };

enum bpf_build_test {
    BPF_BUILD_EQ,   /* accumulator == value */
    BPF_BUILD_GT,   /* accumulator > value, unsigned */
    BPF_BUILD_BITS, /* accumulator & value != 0 */
};

struct bpf_build_jump {
    uint16_t insn;
    uint16_t yes;
    uint16_t no;
};

/* Embedded by the caller; its members are for bpf.c alone. */
struct bpf_build {
    struct sock_filter *code; /* borrowed: from the caller of bpf_build_init */
    size_t max;
    size_t len;
    bool failed;
    size_t n_labels;
    size_t n_jumps;
    int32_t target[BPF_BUILD_LABELS];
    struct bpf_build_jump jumps[BPF_BUILD_JUMPS];
};

/*
 * Begins a program of at most max instructions in code, which is borrowed until
 * bpf_build_finish.
 */
void bpf_build_init(struct bpf_build *b, struct sock_filter *code, size_t max);

/* Returns a new label, to be bound once after the jumps that name it. */
unsigned bpf_build_label(struct bpf_build *b);

/* Lets the label stand for the instruction that is added next. */
void bpf_build_bind(struct bpf_build *b, unsigned label);

/* Loads the 32-bit word at an offset into the data. */
void bpf_build_load(struct bpf_build *b, uint32_t offset);

/* Goes to the label yes if the test holds, else to no. */
void bpf_build_jump(struct bpf_build *b, enum bpf_build_test test,
                    uint32_t value, unsigned yes, unsigned no);

/* Ends the program with a result. */
void bpf_build_ret(struct bpf_build *b, uint32_t result);

/*
 * Resolves the jumps and returns the number of instructions; 0 if anything did
 * not fit: code, labels, jumps, a distance above 255, a label without a place
 * or behind its jump, or a program that does not end with a result.
 */
size_t bpf_build_finish(struct bpf_build *b);

#endif
