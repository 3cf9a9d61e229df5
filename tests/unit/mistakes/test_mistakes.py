"""Mistakes as people make them, and what they are told: `tests/specs/mistakes/*.spec`, over the tables of `schema.sql`.

`mistake`: a statement that is refused, shown as on a terminal. `doubt`: one that runs, and that is most likely not what
was meant: its warnings. `pytest --rewrite` writes the outputs anew; read them as a beginner would.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError, render
from sqlengine import TableEnvironment
from tests.spec_file import cases, check_spec, spec_files

FOLDER = Path(__file__).parents[2] / "specs" / "mistakes"
SPECS = spec_files("mistakes")
NO_ADVICE = "unexpected end of input"
"""What a text lacks that ends too early is said by what was expected."""


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.execute_script((FOLDER / "schema.sql").read_text("utf-8"))
        yield made


@pytest.mark.filterwarnings("ignore::sqlengine.SqlEngineWarning")
@pytest.mark.parametrize("path", SPECS, ids=[path.stem for path in SPECS])
def test_spec(path: Path, t_env: TableEnvironment, rewrite: bool) -> None:
    def run(command: str, text: str) -> str:
        warnings: list[str] = []
        try:
            for result in t_env.run_script(text):
                warnings += result.warnings
                if result.is_query:
                    result.wait()
        except SqlEngineError as error:
            assert command == "mistake", f"{text}: {render(error)}"
            return render(error)
        assert command == "doubt", f"this was taken: {text}"
        return "\n".join(warnings)

    check_spec(path, run, rewrite=rewrite)


def test_every_mistake_has_its_place_and_what_to_do() -> None:
    found = [(text, shown) for path in SPECS for command, text, shown in cases(path) if command == "mistake"]
    assert len(found) >= 150
    assert not [text for text, shown in found if "\n  at " not in shown or "^" not in shown]
    assert not [text for text, shown in found if "hint: " not in shown and "; expected " not in shown]


def test_every_doubt_says_what_to_write() -> None:
    found = [(text, shown) for path in SPECS for command, text, shown in cases(path) if command == "doubt"]
    assert found and not [text for text, shown in found if not shown]
