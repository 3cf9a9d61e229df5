"""docs/command_line.md, which follows from the parsers of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from sqlengine.cli.main import build_parser

__all__ = ["command_page", "options_of_commands"]

_HEAD = """# The command line

Every command with its options, as `sqlengine COMMAND --help` shows them.
"""


def _parsers() -> Iterator[argparse.ArgumentParser]:
    parser = build_parser()
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def options_of_commands() -> set[str]:
    """All options of all commands."""
    return {option for parser in _parsers() for option in parser._option_string_actions}


def command_page() -> str:
    """The text of docs/command_line.md."""
    lines = [_HEAD]
    for parser in _parsers():
        lines += [
            f"## {parser.prog}\n",
            f"{(parser.description or '').strip()}\n",
            "| argument | meaning |",
            "|---|---|",
        ]
        lines += [
            f"| {_written(a)} | {_meaning(a)} |"
            for a in parser._actions
            if not isinstance(a, argparse._SubParsersAction)
        ]
        lines += ["", "```text", (parser.epilog or "").strip("\n"), "```", ""]
    return "\n".join(lines)


def _written(action: argparse.Action) -> str:
    value = action.metavar or ("|".join(action.choices) if action.choices else "")
    if not action.option_strings:
        return f"`{value or action.dest.upper()}`"
    taken = f" {value}" if action.nargs != 0 and value else ""
    return ", ".join(f"`{option}{taken}`" for option in action.option_strings).replace("|", "\\|")


def _meaning(action: argparse.Action) -> str:
    return ((action.help or "") % {"default": f"`{action.default}`"}).replace("|", "\\|")
