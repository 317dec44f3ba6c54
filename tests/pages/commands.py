"""Writes what the dashboard has to know of the runtime, which it does not import.

python -m tests.pages.commands

vizdist/pages/commands.json   what the parsers of both commands say: the Reference page shows it
vizdist/store/runnable.json   what `tracer list --json` says: from it a viewer may start a run
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import vizdist.pages
import vizdist.store
from tracer.cli import command_parser
from tracer.workloads.listing import listed
from vizdist.cli import _parser

FILE = Path(vizdist.pages.__file__).parent / "commands.json"
RUNNABLE = Path(vizdist.store.__file__).parent / "runnable.json"


def commands() -> list[dict[str, Any]]:
    """Every command of `tracer` and `vizdist` with its arguments, in the order of --help."""
    return [*_commands_of(command_parser()), *_commands_of(_parser())]


def text() -> str:
    return json.dumps(commands(), indent=1, ensure_ascii=False) + "\n"


def runnable_text() -> str:
    return json.dumps(listed(), indent=1, ensure_ascii=False) + "\n"


def _commands_of(parser: argparse.ArgumentParser) -> Iterator[dict[str, Any]]:
    [commands] = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    says = {choice.dest: choice.help for choice in commands._choices_actions}
    for name, command in commands.choices.items():
        yield {
            "name": f"{parser.prog} {name}",
            "says": says.get(name) or command.description or "",
            "examples": _examples(command.epilog or ""),
            "arguments": [_argument(one) for one in command._actions if one.dest != "help"],
        }


def _examples(epilog: str) -> list[str]:
    return [line.strip() for line in epilog.splitlines() if line.startswith("  ")]


def _argument(action: argparse.Action) -> dict[str, Any]:
    names = ", ".join(action.option_strings) or str(action.metavar or action.dest)
    takes = "" if action.nargs == 0 or not action.option_strings else action.metavar or action.dest
    return {
        "names": names,
        "takes": str(takes if not action.choices or action.metavar else "|".join(action.choices)),
        "says": (action.help or "").replace("%%", "%"),
        "required": action.required,
    }


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    RUNNABLE.write_text(runnable_text(), encoding="utf-8")
