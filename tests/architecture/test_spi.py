"""Third parties import `sqlengine.spi`, and nothing below it."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine import spi

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted(p.stem for p in (ROOT / "runtime" / "spi").glob("*.py") if p.stem != "__init__")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAM = re.compile(r"^```(?:python|console)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
IMPORT = re.compile(r"^(?:>>> |\.\.\. )?\s*(?:from|import) +([\w.]+)", re.MULTILINE)
INSIDE = ("runtime", "planner", "connectors")


@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_of_the_spi_gives_is_in_sqlengine_spi(name: str) -> None:
    module = importlib.import_module(f"runtime.spi.{name}")
    missing = [given for given in module.__all__ if getattr(spi, given, None) is not getattr(module, given)]
    assert not missing
    assert not set(module.__all__) - set(spi.__all__)


def test_public_classes_of_the_spi_are_listed() -> None:
    for name in MODULES:
        module = importlib.import_module(f"runtime.spi.{name}")
        tree = ast.parse((ROOT / "runtime" / "spi" / f"{name}.py").read_text())
        public = {n.name for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")}
        assert public <= set(module.__all__)


def third_party_programs() -> Iterator[tuple[str, str]]:
    """Where programs of third parties stand, and their text: examples in the documentation, and in tests the texts and
    modules that import `sqlengine.spi`."""
    for page in PAGES:
        for number, block in enumerate(PROGRAM.findall(page.read_text())):
            yield f"{page.name}, program {number}", block
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text()
        if path == Path(__file__) or "sqlengine.spi" not in text:
            continue
        for found in ast.walk(ast.parse(text)):
            if (
                isinstance(found, ast.Constant)
                and isinstance(found.value, str)
                and "sqlengine.spi import" in found.value
            ):
                yield f"{path.name}, line {found.lineno}", found.value


def test_examples_of_third_parties_import_the_spi_only() -> None:
    programs = list(third_party_programs())
    assert any("sqlengine.spi" in program for _, program in programs)
    wrong = [
        f"{where}: {name}"
        for where, program in programs
        for name in IMPORT.findall(program)
        if name.split(".")[0] in INSIDE
    ]
    assert not wrong
