"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
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
        if (text := p.read_text().strip()) and not text.startswith(('"""', 'r"""')) and p.name != "__main__.py"
    ]
    assert not silent


def test_no_project_import_hides_in_a_function() -> None:
    hidden = []
    indented = re.compile(rf"^ +(?:from|import) (?:{'|'.join(PACKAGES)})\b", re.MULTILINE)
    for path in SOURCES:
        text = path.read_text()
        for function in ast.walk(ast.parse(text)) if indented.search(text) else ():
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


_COMMAND = "sys.argv = ['sqlengine', *{words!r}]; from sqlengine.cli.main import main; sys.exit(main())"
STARTS = {
    "help": (_COMMAND.format(words=["--help"]), 30, {"numpy", "pyarrow", "sqlglot"}),
    "import": ("import sqlengine", 5, {"numpy", "pyarrow", "sqlglot"}),
    "query": (_COMMAND.format(words=["run", "-e", "SELECT 1"]), 525, set[str]()),
    "explain": (_COMMAND.format(words=["explain", "-e", "SELECT 1"]), 544, set[str]()),
    "environment": ("import sqlengine; sqlengine.TableEnvironment.create()", 564, set[str]()),
}
"""Programs, the most modules of the house and of sqlglot that they may load, and what they do without."""
HEAVY = {
    "duckdb",
    "lark",
    "prompt_toolkit",
    "pandas",
    "polars",
    "pyspark",
    "confluent_kafka",
    "rocksdict",
    "IPython",
    "pyiceberg",
    "deltalake",
    "psycopg",
    "adbc_driver_postgresql",
    "pymysql",
}


@pytest.mark.parametrize("start", STARTS)
def test_a_start_loads_what_it_needs(start: str) -> None:
    program, most, without = STARTS[start]
    told = "import atexit, sys; atexit.register(lambda: print('MODULES', *sys.modules)); "
    done = subprocess.run([sys.executable, "-c", told + program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.rpartition("MODULES")[2].split()
    assert not {name.split(".")[0] for name in loaded} & (HEAVY | without)
    counted = [name for name in loaded if name.split(".")[0] in (*PACKAGES, "sqlglot")]
    assert len(counted) <= most, sorted(counted)


def test_rooms_are_imported_for_type_checkers() -> None:
    """Beside `else: name = Room("a.b")` stands `import a.b as name`: so pyright finds a name that the module lacks, and
    import-linter a room that is above."""
    wrong = []
    for path in SOURCES:
        text = path.read_text()
        tree = ast.parse(text if "Room(" in text else "")
        imported, rooms = set[tuple[str, str]](), set[tuple[str, str]]()
        for node in (n for block in ast.walk(tree) if isinstance(block, ast.If) for n in (*block.body, *block.orelse)):
            if isinstance(node, ast.Import):
                imported |= {(name.name, name.asname or name.name) for name in node.names}
        for node in ast.walk(tree):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.Call(func=ast.Name(id="Room"), args=[ast.Constant(value=module)]),
                ):
                    rooms.add((module, name))
        wrong += [f"{path.relative_to(ROOT)} {module}" for module, name in rooms - imported]
    assert not wrong


def test_tables_of_names_name_what_is_there() -> None:
    for module, table, prefix in (
        ("runtime.operators.build", "_OPERATORS", ""),
        ("sqlengine.statements.dispatch", "_RUN", "sqlengine.statements."),
    ):
        for name in getattr(importlib.import_module(module), table).values():
            assert callable(pkgutil.resolve_name(prefix + name))


def test_no_public_name_is_that_of_a_module() -> None:
    # Where a module of the package has the name, `from sqlengine import name` gives the module.
    public = importlib.import_module("sqlengine.public")
    assert not set(public.__all__) & {path.stem for path in (ROOT / "sqlengine").iterdir()}


def test_nothing_that_a_test_wrote_is_in_the_repository() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert {path.split("/")[0] for path in tracked} == {
        *(
            "pyproject.toml",
            "sqlengine",
            "planner",
            "runtime",
            "connectors",
            "tests",
            "sql_examples",
            "docs",
            "typings",
            "deploy",
        ),
        *("README.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "Makefile", "setup.py", ".ci", ".gitignore"),
    }
