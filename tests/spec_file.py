"""Golden specs, `tests/specs/**/*.spec`: a command line, the input, `----`, the output, an empty line; again and
again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["cases", "check_spec", "spec_files"]

SPECS = Path(__file__).parent / "specs"


def spec_files(room: str) -> list[Path]:
    return sorted((SPECS / room).glob("*.spec"))


def cases(path: Path) -> list[tuple[str, str, str]]:
    """(command line, input, expected output) of each case."""
    found = []
    for block in path.read_text("utf-8").split("\n\n"):
        if block.strip():
            head, _, expected = block.strip("\n").partition("\n----")
            command, _, text = head.partition("\n")
            found.append((command, text, expected.removeprefix("\n")))
    return found


def check_spec(path: Path, run: Callable[[str, str], str], *, rewrite: bool) -> None:
    """Run every case of a file: compare, or write what came out into the file."""
    written, wrong = [], []
    for command, text, expected in cases(path):
        actual = run(command, text)
        written.append(f"{command}\n{text}\n----\n{actual}\n" if actual else f"{command}\n{text}\n----\n")
        if actual != expected:
            wrong.append(f"{command}\n{text}\n---- expected\n{expected}\n---- but is\n{actual}")
    if rewrite:
        path.write_text("\n".join(written), "utf-8")
    else:
        assert not wrong, "\n\n".join(wrong)
