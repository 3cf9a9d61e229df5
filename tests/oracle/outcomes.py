"""What may become of a generated case, and in which words it is counted."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.strategies import SearchStrategy

from runtime.core.errors import InternalError, SqlEngineError, UnsupportedError
from tests.oracle.differences import REFUSALS

__all__ = ["CASES", "OUTCOME", "SEED", "Broken", "Refused", "Skipped", "nature", "share", "told", "try_cases"]

OUTCOME = "outcome of a generated case"
CASES = int(os.environ.get("FUZZ_CASES", "300"))
"""The number of cases in all; `share` divides it."""
_WANTED = os.environ.get("FUZZ_SEED") or ("random" if CASES > 300 else "0")
SEED = random.SystemRandom().randrange(1 << 30) if _WANTED == "random" else int(_WANTED)

T = TypeVar("T")


class Broken(AssertionError):
    """The law does not hold."""


class Skipped(Exception):
    """The case says nothing: DuckDB cannot answer it, or its answer is too large."""


class Refused(Skipped):
    """The engine says that it does not support the statement: counted, and listed."""


def nature(why: str) -> str:
    """The kind of an outcome, without the names and numbers of the case."""
    first = re.sub(r" (with|without rules) [^:]*", " ", why.splitlines()[0])
    return re.sub(r"c?\d+|\"[^\"]*\"|'[^']*'|\[.*", "#", first)[:100]


def share(percent: float, among: int, least: int) -> int:
    """How many cases each of so many parts gets that have a share of all together."""
    return max(least, round(CASES * percent / 100 / among))


@contextmanager
def told(refusal: str) -> Iterator[None]:
    """What fails within tells of a case: Broken where the engine is wrong, Refused and Skipped where it says no, as it does
    with the code `refusal`."""
    try:
        yield
    except (Broken, Skipped):
        raise
    except InternalError as error:
        raise Broken(f"{error}\n{error.hint or ''}") from error
    except SqlEngineError as error:
        if isinstance(error, UnsupportedError) or error.code == refusal:
            raise Refused(f"refused: {error}") from error
        if any(r in str(error) for r in REFUSALS):
            raise Skipped(f"refused: {error}") from error
        raise Broken(f"refused: {error}") from error
    except Exception as error:
        raise Broken(f"{type(error).__name__}: {error}") from error


def try_cases(
    strategy: SearchStrategy[T], name: str, number: int, check: Callable[[T], None], outcome: Callable[[str], None]
) -> tuple[T, str] | None:
    """Draw cases and check them: the smallest that is broken, with the reason, or None.

    Hypothesis has no memory of earlier runs: what fails is shrunk and written down. `name` and `SEED` make the cases.
    """
    said: list[tuple[T, str]] = []

    @seed(random.Random(f"{SEED}/{name}").randrange(1 << 30))
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        phases=[Phase.generate, Phase.shrink],
        print_blob=False,
    )
    @given(strategy)
    def run(case: T) -> None:
        try:
            check(case)
        except Skipped as skipped:
            what = nature(str(skipped))
        except Broken as broken:
            said.append((case, str(broken)))
            raise
        else:
            what = "equal"
        if not said:
            outcome(what)

    try:
        run()
    except Broken:
        outcome("broken: " + nature(said[-1][1]))
        return said[-1]
    return None
