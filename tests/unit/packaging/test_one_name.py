"""In a wheel the three packages stand below `sqlengine`, and whatever names a module of theirs says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.cli.one_name import renamed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for module in ("runtime/core/errors.py", "planner/stages.py", "connectors/kafka/table.py"):
        (tmp_path / module).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / module).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from runtime.core import errors", "from sqlengine.runtime.core import errors"),
        ("from runtime import core", "from sqlengine.runtime import core"),
        ("from  connectors.kafka.table import (\n    KAFKA,\n)", "from  sqlengine.connectors.kafka.table import (\n    KAFKA,\n)"),
        ("import os, planner.stages as s", "import os, sqlengine.planner.stages as s"),
        ("if x:\n    from planner import stages", "if x:\n    from sqlengine.planner import stages"),
        ("try: from planner import a\nexcept OSError: pass", "try: from sqlengine.planner import a\nexcept OSError: pass"),
        ("a = 'é'; from planner import stages", "a = 'é'; from sqlengine.planner import stages"),
        ('TABLE = "connectors.kafka.table:KAFKA"', 'TABLE = "sqlengine.connectors.kafka.table:KAFKA"'),
        ("patch('runtime.core.errors.LIMIT', 1)", "patch('sqlengine.runtime.core.errors.LIMIT', 1)"),
    ],
)  # fmt: skip
def test_what_names_a_module(source: str, expected: str, root: Path) -> None:
    assert renamed(source, root) == expected


@pytest.mark.parametrize(
    "source",
    [
        "from sqlengine.runtime import core",
        "from .runtime import core",
        "from runtimes import core",
        "from os import runtime",
        "runtime = runtime.core",
        '"""Errors are in runtime.core.errors."""',
        "# from runtime import core",
        "text = 'from runtime.core import errors'",
        "option = 'runtime.mode'",
        "option = 'connectors'",
        "text = 'runtime.core.errors are many'",
        "text = f'runtime.core.{name}'",
    ],
)
def test_what_does_not(source: str, root: Path) -> None:
    assert renamed(source, root) == source


def test_a_name_that_would_be_another_is_refused(root: Path) -> None:
    with pytest.raises(SyntaxError, match="line 2"):
        renamed("x = 1\nimport runtime.core", root)
