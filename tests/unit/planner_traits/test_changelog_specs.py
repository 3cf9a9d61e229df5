"""Golden specs of changelog modes: `tests/specs/changelog/*.spec`.

A spec is a command line, a logical plan, `----`, and the physical plan with the row kinds of every edge. The command is
`changelog`, with the sink that the plan is written to: `sink=append`, `upsert`, `keys` (takes deletes by key alone) or
`retract`, `key=a,b` its primary key, `conflict=DEDUPLICATE`, and options as `name=value`. Without a sink the rows are
shown, which wants all kinds. An error stands as it is reported. `pytest --rewrite` writes the outputs anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from trait_plans import FakeSource, sink

from planner.logical.reader import read_plan
from planner.lower import LowerContext, lower
from planner.traits.context import TraitContext
from runtime.core.changelog import APPEND, RETRACT, UPSERT
from runtime.core.errors import SqlEngineError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.expr.library import builtin_functions
from runtime.plan.explain import explain
from tests.spec_file import check_spec, spec_files

SPECS = spec_files("changelog")
FUNCTIONS = builtin_functions()
BY_KEY = UPSERT.with_(key_only_deletes=True)
MODES = {"append": APPEND, "upsert": UPSERT, "keys": BY_KEY, "retract": RETRACT}


@dataclass(frozen=True)
class SpecSource(FakeSource):
    """A table of a spec; the words behind a Scan name its changelog mode."""


def open_table(name: str, schema: Schema, words: frozenset[str]) -> Any:
    mode = next((MODES[w] for w in words if w in MODES), APPEND)
    return replace(SpecSource(name, schema), changelog_mode=mode)


def run(command: str, text: str) -> str:
    name, *settings = command.split()
    assert name == "changelog", f"unknown command {name}"
    given = dict(s.split("=", 1) for s in settings)
    plan = read_plan(text, FUNCTIONS, open_table)
    mode = given.pop("sink", None)
    key, conflict = given.pop("key", ""), given.pop("conflict", None)
    if mode is not None:
        plan = sink(plan, MODES[mode], tuple(k for k in key.split(",") if k), conflict)
    try:
        return explain(lower(plan, LowerContext(TraitContext(FUNCTIONS, Options(given)))))
    except SqlEngineError as error:
        return str(error)


def test_there_are_specs() -> None:
    assert len(SPECS) >= 3


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_spec(path: Path, rewrite: bool) -> None:
    check_spec(path, run, rewrite=rewrite)
