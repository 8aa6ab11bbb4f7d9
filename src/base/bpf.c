/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/bpf.h"

#include <assert.h>

/* A conditional jump has one byte for each of its two distances. */
#define MAX_DISTANCE 255

#define UNBOUND (-1)

static void
add(struct bpf_build *b, uint16_t code, uint32_t value)
{
    if (b->len >= b->max || b->len >= BPF_MAXINSNS) {
        b->failed = true;
        return;
    }
    b->code[b->len] = (struct sock_filter){.code = code, .k = value};
    b->len++;
}

static uint8_t
distance(struct bpf_build *b, unsigned insn, unsigned label)
{
    int32_t gap;

    if (label == BPF_BUILD_NEXT)
        return 0;
    gap = b->target[label] - (int32_t)insn - 1;
    /* A target equal to len is behind the last instruction. */
    if (b->target[label] == UNBOUND || b->target[label] >= (int32_t)b->len ||
        gap < 0 || gap > MAX_DISTANCE) {
        b->failed = true;
        return 0;
    }
    return (uint8_t)gap;
}

void
bpf_build_init(struct bpf_build *b, struct sock_filter *code, size_t max)
{
    b->code = code;
    b->max = max;
    b->len = 0;
    b->failed = false;
    b->n_labels = 1;
    b->n_jumps = 0;
    b->target[BPF_BUILD_NEXT] = UNBOUND;
}

unsigned
bpf_build_label(struct bpf_build *b)
{
    if (b->n_labels >= BPF_BUILD_LABELS) {
        b->failed = true;
        return BPF_BUILD_NEXT;
    }
    b->target[b->n_labels] = UNBOUND;
    return (unsigned)b->n_labels++;
}

void
bpf_build_bind(struct bpf_build *b, unsigned label)
{
    assert(label < b->n_labels);
    /* BPF_BUILD_NEXT gets here only after bpf_build_label ran out. */
    if (label == BPF_BUILD_NEXT || b->target[label] != UNBOUND) {
        b->failed = true;
        return;
    }
    b->target[label] = (int32_t)b->len;
}

void
bpf_build_load(struct bpf_build *b, uint32_t offset)
{
    add(b, BPF_LD | BPF_W | BPF_ABS, offset);
}

void
bpf_build_jump(struct bpf_build *b, enum bpf_build_test test, uint32_t value,
               unsigned yes, unsigned no)
{
    static const uint16_t codes[] = {
        [BPF_BUILD_EQ] = BPF_JMP | BPF_JEQ | BPF_K,
        [BPF_BUILD_GT] = BPF_JMP | BPF_JGT | BPF_K,
        [BPF_BUILD_BITS] = BPF_JMP | BPF_JSET | BPF_K,
    };

    assert(yes < b->n_labels && no < b->n_labels);
    if (b->n_jumps >= BPF_BUILD_JUMPS) {
        b->failed = true;
        return;
    }
    b->jumps[b->n_jumps] = (struct bpf_build_jump){
        .insn = (uint16_t)b->len, .yes = (uint16_t)yes, .no = (uint16_t)no};
    b->n_jumps++;
    add(b, codes[test], value);
}

void
bpf_build_ret(struct bpf_build *b, uint32_t result)
{
    add(b, BPF_RET | BPF_K, result);
}

size_t
bpf_build_finish(struct bpf_build *b)
{
    size_t i;

    if (b->failed || b->len == 0 ||
        BPF_CLASS(b->code[b->len - 1].code) != BPF_RET)
        return 0;
    for (i = 0; i < b->n_jumps; i++) {
        struct bpf_build_jump *j = &b->jumps[i];

        b->code[j->insn].jt = distance(b, j->insn, j->yes);
        b->code[j->insn].jf = distance(b, j->insn, j->no);
    }
    return b->failed ? 0 : b->len;
}
