"""The documentation: its code runs and gives what it shows, its links lead somewhere (`pytest --rewrite` writes what is
shown anew)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connectors.catalogue import standard_registry
from runtime.expr.library import builtin_functions
from sqlengine import TableEnvironment
from tests.docs.api_reference import api_page
from tests.docs.command_reference import command_page, options_of_commands
from tests.docs.page_run import check_page
from tests.docs.pages import ROOT, blocks_of, headings_of, links_of, matched, outside_of_blocks, pages
from tests.docs.reference import connector_names, documented_functions, functions_page, with_option_tables

PAGES = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages()]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks_of(p.values[0].read_text(encoding="utf-8"))])
def test_the_code_gives_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewrite: bool
) -> None:
    check_page(page, tmp_path, monkeypatch, rewrite=rewrite)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in links_of(text):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{link}: there is no such file"
        if anchor:
            assert anchor in headings_of(target.read_text(encoding="utf-8")), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", [p for p in PAGES if p.id != "docs/performance.md"])
def test_code_stands_between_fences(page: Path) -> None:
    above = ""
    for number, line in outside_of_blocks(page.read_text(encoding="utf-8")):
        assert above or not line.startswith("    "), f"line {number + 1}: an indented block, which nothing checks"
        above = line


def test_what_matches() -> None:
    assert matched(["a", "...", "c ... e"], ["a", "b", "b", "c d e"])
    assert matched(["3 rows written in 1.2 s"], ["3 rows written in 12.0 s"])
    assert matched(["3 rows written"], ["3 rows written in 12.0 s"])
    assert not matched(["a", "..."], ["b"])
    assert not matched(["a.c"], ["abc"])


def test_pages_that_follow_from_declarations(rewrite: bool) -> None:
    """docs/functions.md, and the tables of options in docs/connectors, which has a page for each connector."""
    functions, connectors = ROOT / "docs" / "functions.md", ROOT / "docs" / "connectors"
    if rewrite:
        functions.write_text(functions_page(), encoding="utf-8")
        for page in connectors.glob("*.md"):
            page.write_text(with_option_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
    assert functions.read_text(encoding="utf-8") == functions_page()
    for page in connectors.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert text == with_option_tables(text)
    registry = standard_registry()
    formats = (connectors / "formats.md").read_text(encoding="utf-8")
    for name in set(connector_names()[0]) - {"memory"}:
        path = connectors / f"{name}.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        assert f"# {name}\n" in text, f"{name} has no page in docs/connectors"
        assert not registry.connectors.get(name).options or f"<!-- options of {name} -->" in text
        assert f"({name}.md)" in (connectors / "README.md").read_text(encoding="utf-8")
    for name in connector_names()[1]:
        assert f"\n## {name}\n" in formats, f"{name} has no section in docs/connectors/formats.md"
        assert not registry.formats.get(name).options or f"<!-- options of {name} -->" in formats


def test_options_of_models(rewrite: bool) -> None:
    """docs/sql/models.md tells of each provider, with its options."""
    path = ROOT / "docs" / "sql" / "models.md"
    if rewrite:
        path.write_text(with_option_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    assert text == with_option_tables(text)
    for name in standard_registry().models.names():
        assert f"<!-- options of {name} -->" in text, f"{name} is not in docs/sql/models.md"


OF_OTHER_PROGRAMS = {
    "curl": {"--data-binary", "--json"},
    "docker": {"--cap-drop", "--file", "--publish", "--read-only", "--security-opt", "--tag", "--tmpfs", "--volume"},
    "kubectl": {"--cert", "--filename", "--follow", "--from-file", "--key"},
    "pip": {"--find-links"},
    "tpchgen-cli": {"--output-dir"},
    "python setup.py": {"--inplace"},
    "protoc": {"--descriptor", "--include"},
    "spark-submit": {"--archives", "--conf", "--deploy-mode", "--files", "--master", "--packages", "--py-files"},
    "pytest": {"--slt-matrix", "--slt-rewrite"},
    "python -m tests.benchmarks": {
        "--by",
        "--check",
        "--from",
        "--intervals",
        "--memory",
        "--minutes",
        "--query",
        "--repeat",
        "--rows",
        "--under",
        "--warm",
    },
    "python -m tests.oracle.fuzz_hunt": {"--seconds"},
}


def test_options_of_the_command_line(rewrite: bool) -> None:
    """docs/command_line.md has every option, and no page has one that there is not."""
    page = ROOT / "docs" / "command_line.md"
    if rewrite:
        page.write_text(command_page(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == command_page(), "pytest tests/docs --rewrite makes it anew"
    named = {
        option for p in pages() for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", p.read_text(encoding="utf-8"))
    }
    others = set().union(*OF_OTHER_PROGRAMS.values())
    assert not named - options_of_commands() - others
    assert others <= named


def test_every_public_name_of_python_is_on_its_page(rewrite: bool) -> None:
    page = ROOT / "docs" / "python_api.md"
    if rewrite:
        page.write_text(api_page())
    assert page.read_text() == api_page(), "pytest tests/docs --rewrite makes it anew"


def test_the_job_of_the_testing_page_runs_with_connectors_that_are_there() -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    (job,) = re.findall(r"```sql delays.sql\n(.*?)```", text, re.DOTALL)
    *tables, insert = job.split(";\n\n")
    with TableEnvironment.create() as env:
        for statement in tables:
            env.execute_sql(statement)
        assert "Sink default_catalog.default_database.delays" in env.explain_sql(insert.strip().rstrip(";"))


def test_every_function_is_on_the_page() -> None:
    assert sorted(f.name for f in builtin_functions()) == sorted(documented_functions())


def test_decisions_are_numbered_in_order() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    numbers = [int(number) for number in re.findall(r"(?m)^(\d+)\. \*\*", text)]
    assert numbers == sorted(set(numbers))
