/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "agent/agent.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "agent/prompt_internal.h"
#include "base/error.h"
#include "base/io.h"
#include "base/sbuf.h"
#include "base/utf8.h"

#define MAX_PROMPT_BYTES (64u << 10)

/* Nothing but white space, and what editors leave at the beginning of a file or
   between words that nobody sees: the byte order mark, spaces without width. */
static bool
is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        bool ok = false;

        i += utf8_decode(text + i, len - i, &cp, &ok);
        if (!utf8_is_space(cp) && cp != 0xFEFF && cp != 0x200B && cp != 0x2060)
            return false;
    }
    return true;
}

const char *
agent_system_prompt(void)
{
    return (const char *)prompt_system_md;
}

const char *
agent_reduced_note(void)
{
    return "In this session there is no directory /workspace: where it is "
           "named, the working directory is meant. Use relative names, such "
           "as data/FILE and output/FILE, and the module tempfile for "
           "temporary files; /tmp, /proc and multiprocessing are not there.\n";
}

int
agent_read_prompt(const char *path, char **prompt, struct error *err)
{
    AUTO_SBUF struct sbuf text = {0};
    struct error why = {0};

    *prompt = NULL;
    sbuf_init(&text, MAX_PROMPT_BYTES);
    if (io_read_file(path, &text, &why) < 0) {
        if (why.sys_errno == ENOENT)
            return 0;
        if (why.code == ERR_TOO_LARGE)
            return err_set(err, ERR_CONFIG,
                           "%s: a system prompt has at most %u bytes", path,
                           MAX_PROMPT_BYTES);
        return err_set(err, ERR_CONFIG, "%s", why.msg);
    }
    if (text.len > 0 && (!utf8_valid(text.data, text.len) ||
                         memchr(text.data, '\0', text.len) != NULL))
        return err_set(err, ERR_CONFIG, "%s: no valid UTF-8 text", path);
    if (is_blank(text.data, text.len))
        return err_set(err, ERR_CONFIG, "%s: the system prompt is empty", path);
    *prompt = sbuf_take(&text);
    return 0;
}
