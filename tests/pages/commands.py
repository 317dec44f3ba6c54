"""Writes what the parsers of both commands say into vizdist/pages/commands.json.

python -m tests.pages.commands

The Reference page shows it. The dashboard cannot ask the parsers itself: it does not import the
runtime, whose modules name strategies and passes in their flags.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import vizdist.pages
from tracer.cli import command_parser
from vizdist.cli import _parser

FILE = Path(vizdist.pages.__file__).parent / "commands.json"


def commands() -> list[dict[str, Any]]:
    """Every command of `tracer` and `vizdist` with its arguments, in the order of --help."""
    return [*_commands_of(command_parser()), *_commands_of(_parser())]


def text() -> str:
    return json.dumps(commands(), indent=1, ensure_ascii=False) + "\n"


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
