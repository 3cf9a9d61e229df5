"""The pytest plugin: `*.slt` files are tests, and tests in Python get an environment with virtual time.

    pytest tests/                    runs every .slt file below tests/, beside the tests in Python
    pytest --slt-matrix tests/       also with the input cut into other epochs
    pytest --slt-rewrite tests/      writes what comes out into the files

It loads the engine when the first .slt file or fixture asks for it: a run of pytest that has nothing to do with SQL does
not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["pytest_addoption", "pytest_collect_file", "t_env", "t_env_config"]

_ENGINE = "sqlengine.testing.pytest_files"
pytest.register_assert_rewrite("sqlengine.testing.connectors")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sqlengine", "streaming SQL (.slt files)")
    group.addoption("--slt-matrix", action="store_true", help="run .slt files with their input cut in other ways, too")
    group.addoption("--slt-rewrite", action="store_true", help="write what comes out into the .slt files")
    parser.addini("slt_options", "options of the engine for .slt files and t_env, KEY=VALUE a line", type="linelist")
    parser.addini("slt_matrix", "run .slt files with their input cut in other ways, too", type="bool", default=False)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return (
        _engine(parent.config).SltCollector.from_parent(parent, path=file_path) if file_path.suffix == ".slt" else None
    )


@pytest.fixture
def t_env_config() -> dict[str, str]:
    """Options of `t_env`; a test module or conftest overrides it."""
    return {}


@pytest.fixture
def t_env(request: pytest.FixtureRequest, t_env_config: dict[str, str]) -> Iterator[Any]:
    """A `TableEnvironment` whose clock, watermarks and sources the test moves (`SimulatedEnvironment`)."""
    with _engine(request.config).environment(request.config, t_env_config) as environment:
        yield environment


def _engine(config: pytest.Config) -> Any:
    """The half of the plugin that knows the engine, loaded by pytest when it is first needed."""
    manager = config.pluginmanager
    if not manager.has_plugin(_ENGINE):
        manager.import_plugin(_ENGINE)
    return manager.get_plugin(_ENGINE)
