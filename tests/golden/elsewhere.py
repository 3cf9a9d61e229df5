"""Golden files where tasks run in other processes: a few of them, each cut in one way, or all in all ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sqlengine.testing.runner import Cut, run_file
from sqlengine.testing.show import difference_lines
from sqlengine.testing.slt import SltFile, read_slt

__all__ = ["wrong_lines"]

GOLDEN = Path(__file__).parent


def wrong_lines(names: Sequence[str], cuts_for: Callable[[SltFile], Sequence[Cut]], *, everything: bool) -> list[str]:
    """What differs, in the words of the report."""
    wrong: list[str] = []
    for number, path in enumerate(sorted(GOLDEN.rglob("*.slt")) if everything else [GOLDEN / name for name in names]):
        file = read_slt(path)
        cuts = cuts_for(file)
        for cut in cuts if everything else [cuts[number % len(cuts)]]:
            wrong += [line for d in run_file(file, cut) for line in difference_lines(d)]
    return wrong
