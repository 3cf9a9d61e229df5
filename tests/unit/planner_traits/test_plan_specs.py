"""Golden specs of physical plans from SQL: `tests/specs/plans/*.spec`.

Commands: `setup` runs statements and gives nothing; `view` plans the query as a materialized view (tables in memory are
followed); `plan` plans a statement; `cost`, `state`, `keys` and `advice` show what EXPLAIN says with that detail.
Errors stand as they are reported. Every file starts with an environment of its own. `pytest --rewrite` writes the
outputs anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from tests.spec_file import check_spec, spec_files

SPECS = spec_files("plans")
DETAILS = {"cost": "ESTIMATED_COST", "state": "STATE", "advice": "PLAN_ADVICE", "keys": "CHANGELOG_MODE"}
SECTIONS = {"cost": "Optimized Logical Plan", "keys": "Optimized Logical Plan", "advice": "Advice"}


def run(environment: TableEnvironment, command: str, text: str) -> str:
    try:
        if command == "setup":
            environment.execute_script(text)
            return ""
        statement = f"CREATE MATERIALIZED VIEW shown AS {text}" if command in ("view", *DETAILS) else text
        shown = environment.explain_sql(statement, *([DETAILS[command]] if command in DETAILS else []))
    except SqlEngineError as error:
        return str(error)
    return section(shown, SECTIONS.get(command, "Physical Plan"))


def section(text: str, title: str) -> str:
    _, _, rest = text.partition(f"== {title} ==\n")
    return rest.partition("\n\n== ")[0].replace("default_catalog.default_database.", "").strip("\n")


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_spec(path: Path, rewrite: bool) -> None:
    with TableEnvironment.create({}) as environment:
        check_spec(path, lambda command, text: run(environment, command, text), rewrite=rewrite)
