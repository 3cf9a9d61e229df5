"""Golden specs of the binder: `tests/specs/bind/*.spec` over the tables of `tests/specs/bind/schema.sql`.

A spec is a command line, the SQL, `----`, the output, and an empty line. Commands: `plan` (the logical plan and the
types of the columns), `types` (only the latter), `insert` (the plan of an INSERT), `error` (SQL that must be refused,
shown as a person sees it). Set SQLENGINE_REWRITE=1 to write the outputs anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.logical.display import explain
from planner.logical.nodes import LogicalNode
from planner.logical.validate import validate
from runtime.core.errors import SqlEngineError, render
from sqlengine.bind import bind_insert, bind_query
from sqlengine.catalog.objects import CatalogTable
from sqlengine.parse import parse_query, parse_statement
from sqlengine.parse import statement_nodes as st

from .fake_catalog import FakeCatalog

FOLDER = Path(__file__).parents[2] / "specs" / "bind"
SPECS = sorted(FOLDER.glob("*.spec"))
REWRITE = bool(os.environ.get("SQLENGINE_REWRITE"))


def catalog() -> FakeCatalog:
    return FakeCatalog().run((FOLDER / "schema.sql").read_text("utf-8"))


def bind(text: str, context: FakeCatalog) -> tuple[LogicalNode, tuple[str, ...]]:
    if text.startswith("INSERT"):
        statement = parse_statement(text)
        assert isinstance(statement, st.Insert)
        table = context.objects[statement.table.parts[-1]]
        assert isinstance(table, CatalogTable)
        plan: LogicalNode = bind_insert(statement, table, context.sink(table), context)
        return plan, tuple(c.name for c in plan.inputs[0].columns)
    bound = bind_query(parse_query(text), context)
    return bound.plan, bound.names


def run(command: str, text: str) -> str:
    context = catalog()
    if command == "error":
        try:
            plan, _ = bind(text, context)
        except SqlEngineError as error:
            error.text = text
            return render(error)
        raise AssertionError(f"this was taken: {text}\n{explain(plan)}")
    plan, names = bind(text, context)
    validate(plan)
    columns = plan.inputs[0].columns if command == "insert" else plan.columns
    types = "\n".join(f"{name}: {column.type}" for name, column in zip(names, columns, strict=True))
    return types if command == "types" else f"{explain(plan)}\n=>\n{types}"


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
