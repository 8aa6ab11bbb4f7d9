# SPDX-License-Identifier: GPL-3.0-or-later
"""The language in which a test writes what the fake service says.

An exchange is made by reply(), error(), response(), redirect(), raw_http()
or by any function that takes the request and returns one of these.  Content
and controls may be mixed at every level:

    reply([
        thinking("The file has ", gate("mid-thought"), "two columns."),
        text("I will ", gate("half"), "count them."),
        tool_use("run_python", {"code": "print(1)"}),
    ])

Content   text(*parts, split=N)  thinking(*parts, signature=, split=N)
          redacted_thinking(data)
          tool_use(name, input, id=, fragments=[...], split=N)
          block(start, deltas=[...])       a block of any kind, verbatim
Controls  gate("name")    send nothing more until server.release("name")
          mark("name")    reached, and go on
          hang()          a gate that nothing opens
          pause(seconds)  send nothing for so long
          cut("reset")    TCP reset;  cut("close") close in mid-body;
                          cut("end") end the body properly, but early
          ping()  event(name, object)  error_event(type, message)
          raw(b"...")     bytes of the body, verbatim
A part is a string (one delta each) or a control.  split=N cuts every string
into deltas of N characters.
"""

import json


class Control:
    """kind: gate mark pause cut raw event."""

    def __init__(self, kind, value=None, name=None):
        self.kind = kind
        self.value = value
        self.name = name


def gate(name):
    return Control("gate", name)


def mark(name):
    return Control("mark", name)


def hang():
    return Control("gate", None)


def pause(seconds):
    return Control("pause", seconds)


def cut(how="reset"):
    if how not in ("reset", "close", "end"):
        raise ValueError("cut: %r" % (how,))
    return Control("cut", how)


def raw(data):
    return Control("raw", bytes(data))


def event(name, obj):
    """One event; obj is an object for JSON or a string that is sent as is."""
    return Control("event", obj, name)


def ping():
    return event("ping", {"type": "ping"})


def error_event(kind="overloaded_error", message="Overloaded", details=None):
    return event("error", {"type": "error", "error": {
        "type": kind, "message": message, "details": details}})


class Block:
    """One content block: what starts it, its deltas, what it amounts to."""

    def __init__(self, start, deltas, final, stop=True):
        self.start = start
        self.deltas = deltas
        self.final = final
        self.stop = stop


def _parts(parts, split):
    out = []
    for part in parts:
        if isinstance(part, str) and split:
            out += [part[i:i + split] for i in range(0, len(part), split)]
        else:
            out.append(part)
    return out


def _joined(parts):
    return "".join(part for part in parts if isinstance(part, str))


def _deltas(parts, kind, key):
    return [{"type": kind, key: part} if isinstance(part, str) else part
            for part in parts]


def text(*parts, split=None):
    parts = _parts(parts, split)
    return Block({"type": "text", "text": ""},
                 _deltas(parts, "text_delta", "text"),
                 {"type": "text", "text": _joined(parts)})


def thinking(*parts, signature=None, split=None):
    """Without parts: the block of display "omitted", a signature only."""
    parts = _parts(parts, split)
    return Block({"type": "thinking", "thinking": "", "signature": ""},
                 _deltas(parts, "thinking_delta", "thinking"),
                 {"type": "thinking", "thinking": _joined(parts),
                  "signature": signature})


def redacted_thinking(data):
    final = {"type": "redacted_thinking", "data": data}
    return Block(dict(final), [], final)


def _input_of(body):
    """The object that the JSON text means; None where it means none, and
    what the client then sends back is its own affair."""
    try:
        value = json.loads(body)
        body = json.dumps(value, ensure_ascii=False).encode("utf-8")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def tool_use(name, input=None, id=None, fragments=None, split=None,
             caller=None, stop=True):
    """fragments: strings and controls that make up the JSON text of the
    input, instead of input; [] sends none at all.  stop=False leaves out
    content_block_stop, as happens when max_tokens cuts a call."""
    if fragments is None:
        body = json.dumps({} if input is None else input,
                          ensure_ascii=False)
        fragments = [""] + _parts([body], split)
    else:
        fragments = _parts(fragments, split)
    value = _input_of(_joined(fragments) or "{}")
    start = {"type": "tool_use", "id": id, "name": name, "input": {}}
    final = {"type": "tool_use", "id": id, "name": name, "input": value}
    if caller is not None:
        start["caller"] = final["caller"] = caller
    return Block(start, _deltas(fragments, "input_json_delta",
                                "partial_json"), final, stop)


def block(start, deltas=()):
    return Block(start, list(deltas), dict(start))


class Exchange:
    """What goes back for one request; see the functions below."""

    def __init__(self, kind, **fields):
        self.kind = kind
        self.__dict__.update(fields)


def reply(items, stop_reason=None, stop_sequence=None, stop_details=None,
          usage=None, id=None, model=None, headers=None, before=(),
          leading=(), deltas=(), chunk=None, crlf=False, cut_after=None,
          cut_how="reset", lean=False, with_usage=True, finish=True,
          without=(), content_type="text/event-stream; charset=utf-8"):
    """A message, streamed if the request asks for it.

    stop_reason   default: tool_use if there is such a block, else end_turn
    usage         dict that replaces fields of the usage
    before        controls before the response headers
    leading       controls between the headers and message_start
    deltas        more message_delta objects before the last one
    chunk         bytes per write and HTTP chunk (1: byte by byte)
    cut_after     cut (cut_how) after that many bytes of the body
    lean          leave out every field that would be null
    with_usage    False: no usage anywhere
    finish        False: the body ends properly without message_delta and
                  message_stop
    without       what a server of another vendor leaves out of a stream:
                  "message_start", "index", "id" (of calls); with any of
                  these, and with "organization", nothing names the vendor,
                  and what the client makes of it is not held against it
    """
    unknown = set(without) - {"message_start", "index", "id", "organization"}
    if unknown:
        raise ValueError("without: %r" % (unknown,))
    items = [text(item) if isinstance(item, str) else item for item in items]
    kinds = [item.final["type"] for item in items if isinstance(item, Block)]
    if "tool_use" in kinds:
        rest = kinds[kinds.index("tool_use"):]
        if set(rest) & {"text", "thinking", "redacted_thinking"}:
            raise ValueError("text or thinking after a tool_use")
    if stop_reason is None:
        stop_reason = "tool_use" if "tool_use" in kinds else "end_turn"
    return Exchange("reply", items=items, stop_reason=stop_reason,
                    stop_sequence=stop_sequence, stop_details=stop_details,
                    usage=usage or {}, id=id, model=model,
                    headers=headers or {}, before=list(before),
                    leading=list(leading), deltas=list(deltas), chunk=chunk,
                    crlf=crlf, cut_after=cut_after, cut_how=cut_how,
                    lean=lean, with_usage=with_usage, finish=finish,
                    without=set(without), content_type=content_type)


def error(status, type=None, message="", headers=None, details=None,
          body=None, content_type="application/json", before=()):
    """An error of the service; body (bytes) replaces the JSON object."""
    return Exchange("error", status=status, type=type, message=message,
                    headers=headers or {}, details=details, body=body,
                    content_type=content_type, before=list(before))


def response(status, items, headers=None, before=(), chunk=None):
    """Any response: items are bytes and controls."""
    return Exchange("response", status=status, items=list(items),
                    headers=headers or {}, before=list(before), chunk=chunk)


def redirect(location, status=307):
    return response(status, [], {"location": location})


def raw_http(items):
    """Bytes and controls straight onto the connection, which then closes."""
    return Exchange("raw_http", items=list(items), before=[])


def tool_results(request):
    """id -> text of the tool results in the request's last message."""
    out = {}
    content = request.body["messages"][-1]["content"]
    for item in content if isinstance(content, list) else []:
        if item["type"] != "tool_result":
            continue
        inner = item.get("content", "")
        if isinstance(inner, list):
            inner = "".join(part.get("text", "") for part in inner)
        out[item["tool_use_id"]] = inner
    return out
