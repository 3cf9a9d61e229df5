"""Golden specs of the parser: `tests/specs/parse/*.spec`.

A spec is a command line, the input, `----`, the output, and an empty line. Commands: `statement`, `script`, `query`,
`expression`, `type`, and `error` (a script that must be refused, shown as a person sees it). `pytest --rewrite` writes
the outputs anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError, render
from sqlengine.parse import parse_expression, parse_query, parse_script, parse_statement, parse_type
from tests.spec_file import cases, check_spec, spec_files

from .printing import show

SPECS = spec_files("parse")


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


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_spec(path: Path, rewrite: bool) -> None:
    check_spec(path, run, rewrite=rewrite)


def test_there_are_specs() -> None:
    assert sum(len(cases(path)) for path in SPECS) > 100
