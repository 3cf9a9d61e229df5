"""Golden specs of the parser: `tests/specs/parse/*.spec`.

A spec is a command line, the input, `----`, the output, and an empty line. Commands: `statement`, `script`, `query`,
`expression`, `type`, and `error` (a script that must be refused, shown as a person sees it). Set SQLENGINE_REWRITE=1 to
write the outputs anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError, render
from sqlengine.parse import parse_expression, parse_query, parse_script, parse_statement, parse_type

from .printing import show

SPECS = sorted((Path(__file__).parents[2] / "specs" / "parse").glob("*.spec"))
REWRITE = bool(os.environ.get("SQLENGINE_REWRITE"))


def run(command: str, text: str) -> str:
    match command:
        case "statement":
            return show(parse_statement(text))
        case "script":
            return "\n".join(f"{s.span.start}-{s.span.end} {show(s)}" for s in parse_script(text))
        case "query":
            return show(parse_query(text))
        case "expression":
            return show(parse_expression(text))
        case "type":
            return str(parse_type(text))
        case "error":
            try:
                parsed = parse_script(text)
            except SqlEngineError as error:
                return render(error)
            raise AssertionError(f"this was taken: {show(parsed)}")
    raise AssertionError(f"unknown command {command}")


def cases(path: Path) -> list[tuple[str, str, str]]:
    found = []
    for block in path.read_text("utf-8").split("\n\n"):
        if block.strip():
            head, _, expected = block.strip("\n").partition("\n----")
            command, _, text = head.partition("\n")
            found.append((command, text, expected.removeprefix("\n")))
    return found


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_spec(path: Path) -> None:
    written, wrong = [], []
    for command, text, expected in cases(path):
        actual = run(command, text)
        written.append(f"{command}\n{text}\n----\n{actual}\n\n")
        if actual != expected:
            wrong.append(f"{command}\n{text}\nexpected\n{expected}\nactual\n{actual}")
    if REWRITE:
        path.write_text("".join(written), "utf-8")
        return
    assert not wrong, "\n\n".join(wrong)


def test_there_are_specs() -> None:
    assert sum(len(cases(path)) for path in SPECS) > 100
