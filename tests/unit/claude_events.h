/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Events of a reply, written short.
 */
#ifndef UNIT_CLAUDE_EVENTS_H
#define UNIT_CLAUDE_EVENTS_H

#define EVENT(type, rest)                                                      \
    "event: " type "\ndata: {\"type\":\"" type "\"" rest "}\n\n"
#define BEGIN                                                                  \
    EVENT("message_start",                                                     \
          ",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":5}}")
#define START(index, block)                                                    \
    EVENT("content_block_start",                                               \
          ",\"index\":" index ",\"content_block\":{" block "}")
#define DELTA(index, delta)                                                    \
    EVENT("content_block_delta", ",\"index\":" index ",\"delta\":{" delta "}")
#define STOP(index) EVENT("content_block_stop", ",\"index\":" index)
#define REASON(reason)                                                         \
    EVENT("message_delta", ",\"delta\":{\"stop_reason\":\"" reason "\"}")
#define END EVENT("message_stop", "")

#define TEXT_START(index) START(index, "\"type\":\"text\",\"text\":\"\"")
#define TEXT_DELTA(index, text)                                                \
    DELTA(index, "\"type\":\"text_delta\",\"text\":\"" text "\"")
#define TEXT(index, text) TEXT_START(index) TEXT_DELTA(index, text) STOP(index)
#define TOOL_START(index, id)                                                  \
    START(index, "\"type\":\"tool_use\",\"id\":\"" id                          \
                 "\",\"name\":\"run\",\"input\":{}")
#define JSON_DELTA(index, json)                                                \
    DELTA(index, "\"type\":\"input_json_delta\",\"partial_json\":\"" json "\"")
#define TOOL(index, id, json)                                                  \
    TOOL_START(index, id) JSON_DELTA(index, json) STOP(index)
#define TOOL_SENT(id, input)                                                   \
    "{\"type\":\"tool_use\",\"id\":\"" id                                      \
    "\",\"name\":\"run\",\"input\":" input "}"
#define TEXT_SENT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define THOUGHT_START(index)                                                   \
    START(index, "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"")

#endif
