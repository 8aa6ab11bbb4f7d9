/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "helpers/bpf_eval.h"

#include <assert.h>
#include <string.h>

bool
bpf_eval_valid(const struct sock_filter *code, size_t len)
{
    size_t i;

    if (len == 0 || len > BPF_MAXINSNS)
        return false;
    for (i = 0; i < len; i++) {
        switch (code[i].code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (code[i].k % 4 != 0 || code[i].k >= sizeof(struct seccomp_data))
                return false;
            break;
        case BPF_ALU | BPF_AND | BPF_K:
        case BPF_RET | BPF_K:
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
        case BPF_JMP | BPF_JGT | BPF_K:
        case BPF_JMP | BPF_JSET | BPF_K:
            if (i + 1 + code[i].jt >= len || i + 1 + code[i].jf >= len)
                return false;
            break;
        default:
            return false;
        }
    }
    return BPF_CLASS(code[len - 1].code) == BPF_RET;
}

uint32_t
bpf_eval_run(const struct sock_filter *code, size_t len,
             const struct seccomp_data *data)
{
    uint32_t acc = 0;
    size_t pc = 0;

    assert(bpf_eval_valid(code, len));
    for (;;) {
        const struct sock_filter *f = &code[pc];
        bool holds = false;

        pc++;
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&acc, (const char *)data + f->k, sizeof(acc));
            continue;
        case BPF_ALU | BPF_AND | BPF_K:
            acc &= f->k;
            continue;
        case BPF_RET | BPF_K:
            return f->k;
        case BPF_JMP | BPF_JEQ | BPF_K:
            holds = acc == f->k;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            holds = acc > f->k;
            break;
        default:
            holds = (acc & f->k) != 0;
            break;
        }
        pc += holds ? f->jt : f->jf;
    }
}
