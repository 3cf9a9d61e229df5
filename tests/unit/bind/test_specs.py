"""Golden specs of the binder: `tests/specs/bind/*.spec` over the tables of `tests/specs/bind/schema.sql`.

A spec is a command line, the SQL, `----`, the output, and an empty line. Commands: `plan` (the logical plan and the
types of the columns), `types` (only the latter), `insert` (the plan of an INSERT), `error` (SQL that must be refused,
shown as a person sees it). `pytest --rewrite` writes the outputs anew.
"""

from __future__ import annotations

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
from tests.spec_file import cases, check_spec, spec_files

from .fake_catalog import FakeCatalog

FOLDER = Path(__file__).parents[2] / "specs" / "bind"
SPECS = spec_files("bind")


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


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_spec(path: Path, rewrite: bool) -> None:
    check_spec(path, run, rewrite=rewrite)


def test_there_are_specs() -> None:
    assert sum(len(cases(path)) for path in SPECS) > 100
