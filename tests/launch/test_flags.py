"""The commands and flags are a contract: changing this list is a decision, not an accident."""

import argparse

from tracer.cli import command_parser

FLAGS = {
    "run": [
        "--allow-proxy", "--cache-responses", "--checkpoint", "--checkpoint-every",
        "--collectives", "--connect-timeout", "--costs",
        "--detail", "--devices", "--endpoint", "--fault",
        "--flush-timeout", "--in-process", "--json", "--max-trace-size", "--option",
        "--out", "--passes", "--placer", "--ps", "--ps-devices", "--restart", "--seed",
        "--session-gc", "--soft-placement", "--step-timeout", "--steps",
        "--strategy", "--trace", "--transport", "--workers", "workload",
    ],
    "task": [
        "--allow-proxy", "--cache-responses", "--checkpoint", "--checkpoint-every", "--cluster",
        "--collectives", "--connect-timeout",
        "--costs", "--detail", "--devices", "--endpoint",
        "--flush-timeout", "--index", "--job", "--max-trace-size",
        "--option", "--out", "--passes", "--placer", "--ps-devices", "--secret-file", "--seed",
        "--session-gc", "--soft-placement", "--step-timeout",
        "--steps", "--strategy", "--trace", "--transport", "workload",
    ],
    "partition": ["--costs", "--json", "--passes", "--placer", "--soft-placement", "graph"],
    "cluster": ["action", "file"],
    "schema": ["--json"],
    "list": ["--json"],
    "doctor": [],
}  # fmt: skip


def test_the_commands_and_their_flags_are_these() -> None:
    (commands,) = (
        action
        for action in command_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    found = {
        name: sorted(
            (action.option_strings or [action.dest])[-1]
            for action in parser._actions
            if action.dest != "help"
        )
        for name, parser in commands.choices.items()
    }
    assert found == {name: sorted(flags) for name, flags in FLAGS.items()}


def test_every_flag_says_what_it_does() -> None:
    (commands,) = (
        action
        for action in command_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    silent = [
        f"{name} {action.dest}"
        for name, parser in commands.choices.items()
        for action in parser._actions
        if not action.help
    ]
    assert not silent
