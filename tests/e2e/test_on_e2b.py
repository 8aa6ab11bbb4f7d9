#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chat, loading, tables, charts, errors, interrupts, cut connections and the
history of a conversation, with cells at a service: tests of the other programs
of this directory, each with a fake service of its own (service_run.py).

make check runs SAMPLE; with SANDPIPER_E2B_ALL=1 (make check-e2b-all) all of
MODULES run but for what NOT_HERE says cannot apply.
"""

import importlib
import os
import sys

# Before the helpers are imported: all programs of this one are started so.
os.environ["SANDPIPER_E2E_SANDBOX"] = "e2b"

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "helpers"),
                os.path.join(HERE, "..", "fakes")]

import tap  # noqa: E402
from e2b_server import unavailable  # noqa: E402

ALL = os.environ.get("SANDPIPER_E2B_ALL") == "1"

MODULES = ("repl", "turn", "load", "interrupt", "history", "faults",
           "files_out", "script", "plain", "losses", "status", "stopping",
           "see_charts", "full_table", "limits_of_a_turn", "void_words",
           "thinking", "max_tokens", "sandbox_commands", "hostile_cells")

# What is about something that a service does not have.
NOT_HERE = {
    "limits_of_a_turn.what_is_sent_of_the_local_sandbox":
        "what is sent of a service is another text",
    "limits_of_a_turn.own_system_prompt":
        "what is sent of a service follows it",
    "files_out.hard_links":
        "how many names a file has is not in the protocol",
    "files_out.names_in_a_pipe":
        "a name that is no UTF-8 cannot be told in the protocol",
    "files_out.names_on_a_terminal":
        "a name that is no UTF-8 cannot be told in the protocol",
    "files_out.sparse_file_of_1_tib":
        "how large a file may get is up to the service; too large to be copied "
        "is among the traps",
    "files_out.what_is_not_looked_at_is_said_once":
        "how many more there are is not known of a list that was cut",
    "load.a_name_that_is_no_utf8":
        "names are UTF-8 in the protocol, and this one is refused",
    "load.the_file_is_only_read":
        "who runs cells there owns the directory too, and can remove the copy",
    "losses.an_end_while_nothing_runs":
        "the service's interpreter says nothing unless it is asked to run "
        "something; the next cell says it (the scene lost of the contract)",
    "repl.a_kill_leaves_no_process":
        "what a service runs is no process of this machine, and a program that "
        "is killed cannot ask it for anything",
    "repl.a_notice_above_the_line_keeps_the_line":
        "no bubblewrap: a service needs none",
    "repl.the_greeting": "it names the local sandbox",
    "sandbox_commands.reduced_isolation_is_said":
        "levels of isolation are the local sandbox's",
    "sandbox_commands.sandbox": "facts of the local sandbox",
    "script.no_sandbox": "no bubblewrap: a service needs none",
}

# At least one of each kind, and what has most to do with where cells run.
SAMPLE = (
    "repl.the_prompt_does_not_wait_for_the_sandbox",
    "repl.files_of_the_command_line",
    "repl.save_a_whole_table",
    "repl.save_a_chart",
    "repl.the_terminal_goes_away",
    "turn.print_is_visible_before_the_sleep_ends",
    "turn.a_whole_turn",
    "turn.two_calls_in_one_reply",
    "turn.the_conversation_and_the_variables_go_on",
    "turn.charts_are_told_and_captioned",
    "turn.a_question_while_the_sandbox_starts",
    "load.the_report_and_what_the_model_is_told",
    "load.a_name_with_a_leading_dash",
    "load.names_without_a_letter",
    "load.a_load_whatever_cells_have_named",
    "load.a_name_with_quotes",
    "load.a_changed_file_is_loaded_again",
    "load.a_file_that_fails_harms_nothing",
    "interrupt.in_a_busy_loop",
    "interrupt.in_a_sleep_in_c",
    "interrupt.the_second_of_two_calls_does_not_run",
    "interrupt.a_cell_that_ignores_it",
    "interrupt.while_a_file_is_loaded",
    "history.it_outlives_the_session",
    "faults.a_cut_in_the_input_of_a_tool",
    "faults.the_interpreter_exits",
    "faults.the_interpreter_is_killed",
    "faults.an_error_in_the_code",
    "faults.a_cell_over_its_time",
    "files_out.traps_are_refused_and_said",
    "files_out.plain_file_is_copied",
    "files_out.left_out_names_are_one_line",
    "files_out.a_loaded_file_is_not_copied",
    "script.one_question",
    "script.commands_print_to_stdout",
    "script.interrupted_in_a_cell",
    "script.terminated",
    "plain.question_and_hostile_bytes_in_a_pipe",
    "losses.a_load_that_takes_it",
    "stopping.one_that_never_ends",
    "see_charts.charts_are_sent_in_order",
    "full_table.what_is_left_out_has_a_way",
    "sandbox_commands.vars",
    "sandbox_commands.restart",
    "sandbox_commands.three_ends_are_enough",
    "sandbox_commands.snapshot_and_restore_in_another_session",
)


def not_here(reason):
    def test():
        tap.skip(reason)
    return test


def all_tests():
    """{MODULE.TEST: function}, in the order of MODULES."""
    found = {}
    for name in MODULES:
        module = importlib.import_module("test_" + name)
        for key, function in vars(module).items():
            if key.startswith("test_") and callable(function):
                found["%s.%s" % (name, key[len("test_"):])] = function
    unknown = (set(NOT_HERE) | set(SAMPLE)) - set(found)
    assert not unknown, "no such tests: %s" % sorted(unknown)
    assert not set(NOT_HERE) & set(SAMPLE)
    return found


def chosen(tests, named):
    """All tests can be named, whatever is run without names."""
    if ALL or named:
        return [(name, not_here(NOT_HERE[name]) if name in NOT_HERE
                 else function) for name, function in tests.items()]
    return [(name, tests[name]) for name in SAMPLE]


if __name__ == "__main__":
    why = unavailable()
    if os.environ.get("SANDPIPER_SANITIZERS", "").strip() and not ALL:
        why = "the back end is tried in this build by the contract"
    if why:
        tap.skip_all(why)
    sys.exit(tap.run_tests(chosen(all_tests(), sys.argv[1:]), sys.argv[1:]))
