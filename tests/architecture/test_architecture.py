"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("sqlengine", "planner", "runtime", "connectors")
SOURCES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "tools"}


def test_files_are_read_in_one_sitting() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in (*SOURCES, *(ROOT / "tests").rglob("*.py"))
        if (n := len(p.read_text().splitlines())) > 500
    }
    # The checker of the recorded vectors came with them and stays as it is.
    assert not {k: v for k, v in long.items() if "conformance/vectors" not in k}


def test_no_vague_module_names() -> None:
    assert not [str(p.relative_to(ROOT)) for p in SOURCES if p.stem in VAGUE or p.parent.name in VAGUE]


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(p.relative_to(ROOT))
        for p in SOURCES
        if p.read_text().strip() and ast.get_docstring(ast.parse(p.read_text())) is None and p.name != "__main__.py"
    ]
    assert not silent


def test_no_project_import_hides_in_a_function() -> None:
    hidden = []
    for path in SOURCES:
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                for inner in ast.walk(function):
                    names = (
                        [inner.module or ""]
                        if isinstance(inner, ast.ImportFrom)
                        else [a.name for a in inner.names]
                        if isinstance(inner, ast.Import)
                        else []
                    )
                    hidden += [f"{path.relative_to(ROOT)}:{inner.lineno}" for n in names if n.split(".")[0] in PACKAGES]
    assert not hidden


def test_every_rule_has_a_spec_and_stands_after_what_it_needs() -> None:
    stages = importlib.import_module("planner.stages").STAGES
    order = [rule for stage in stages for rule in stage.rules]
    position = {rule.name: i for i, rule in reversed(list(enumerate(order)))}
    wrong = [
        f"{r.name} stands before {needed}" for r in order for needed in r.after if position[needed] > position[r.name]
    ]
    assert not wrong


@pytest.mark.parametrize(
    "heavy", ["pandas", "polars", "IPython", "pyspark", "rocksdict", "duckdb", "lark", "prompt_toolkit"]
)
def test_start_does_not_load_what_a_query_may_not_need(heavy: str) -> None:
    # pyarrow loads pandas, where it is installed, once something makes an Arrow value of a Python one.
    code = f"import sys, sqlengine; sys.exit('{heavy}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_no_public_name_is_that_of_a_module() -> None:
    # Where a module of the package has the name, `from sqlengine import name` gives the module.
    public = importlib.import_module("sqlengine.public")
    assert not set(public.__all__) & {path.stem for path in (ROOT / "sqlengine").iterdir()}
