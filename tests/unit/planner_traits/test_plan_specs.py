"""Golden specs of physical plans from SQL: `tests/specs/plans/*.spec`.

Commands: `setup` runs statements and gives nothing; `view` plans the query as a materialized view (tables in memory are followed);
`plan` plans a statement; `cost`, `state`, `keys` and `advice` show what EXPLAIN says with that detail. Errors stand as they are
reported. Every file starts with an environment of its own. Set SQLENGINE_REWRITE=1 to write the outputs anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment

SPECS = sorted((Path(__file__).parents[2] / "specs" / "plans").glob("*.spec"))
REWRITE = bool(os.environ.get("SQLENGINE_REWRITE"))
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
    written: list[str] = []
    wrong: list[str] = []
    with TableEnvironment.create({}) as environment:
        for command, text, expected in cases(path):
            actual = run(environment, command, text)
            written.append(f"{command}\n{text}\n----\n{actual}\n" if actual else f"{command}\n{text}\n----\n")
            if actual != expected:
                wrong.append(f"{command}\n{text}\n---- expected\n{expected}\n---- but is\n{actual}")
    if REWRITE:
        path.write_text("\n".join(written), "utf-8")
    elif wrong:
        pytest.fail("\n\n".join(wrong))
