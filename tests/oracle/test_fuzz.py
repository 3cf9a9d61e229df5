"""Generated queries over generated changes: after every epoch each kept answer equals DuckDB's.

FUZZ_CASES is the number of cases in all (300 by default, always the same ones); FUZZ_SEED=random, or a number, draws
others, and the seed is printed with a failure. A failing case is shrunk and printed as a `.slt` file.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from tests.oracle.compare_case import Broken, Skipped, check_case
from tests.oracle.fuzz_report import as_slt, write_slt
from tests.oracle.generate_cases import Case, cases
from tests.oracle.generate_queries import FAMILIES

CASES = int(os.environ.get("FUZZ_CASES", "300"))
WANTED = os.environ.get("FUZZ_SEED") or ("random" if CASES > 300 else "0")
SEED = random.SystemRandom().randrange(1 << 30) if WANTED == "random" else int(WANTED)
CHUNK = 15
"""Hypothesis varies what it had; a new start every few cases keeps them different."""


def fuzz_settings(cases_: int) -> settings:
    """Hypothesis without a memory of earlier runs: what fails is shrunk and written down."""
    return settings(
        max_examples=cases_,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        phases=[Phase.generate, Phase.shrink],
        print_blob=False,
    )


def _chunks() -> list[tuple[str, int]]:
    each = max(1, round(CASES / len(FAMILIES) / CHUNK))
    return [(family, number) for family in FAMILIES for number in range(each)]


@pytest.mark.parametrize(("family", "chunk"), _chunks())
def test_kept_answers_equal_duckdb(family: str, chunk: int) -> None:
    said: list[tuple[int, Case, str]] = []

    @seed(hash_of(family, chunk))
    @fuzz_settings(CHUNK)
    @given(cases(family))
    def run(case: Case) -> None:
        try:
            check_case(case)
        except Skipped:
            return
        except Broken as broken:
            said.append((len(case.sql.ours), case, str(broken)))
            raise

    try:
        run()
    except Broken:
        _, case, why = said[-1]
        path = write_slt(case, why)
        pytest.fail(
            f"seed {SEED} family {family} chunk {chunk}; as a file: {path}\n\n{as_slt(case, why)}", pytrace=False
        )


def hash_of(family: str, chunk: int) -> int:
    """A seed that is the same in every run of Python."""
    return random.Random(f"{SEED}/{family}/{chunk}").randrange(1 << 30)
