"""Generated queries over generated changes: after every epoch each kept answer equals DuckDB's.

FUZZ_CASES is the number of cases of all generators (300 by default, always the same ones); FUZZ_SEED=random, or a
number, draws others, and the seed is printed with a failure. A failing case is shrunk and printed as a `.slt` file.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.oracle.compare_case import check_case
from tests.oracle.compare_dml import check_dml_case
from tests.oracle.fuzz_report import as_slt, dml_as_slt, write_slt
from tests.oracle.generate_cases import cases
from tests.oracle.generate_dml import dml_cases
from tests.oracle.generate_queries import FAMILIES
from tests.oracle.outcomes import SEED, share, try_cases

CHUNK = 15
"""Hypothesis varies what it had; a new start every few cases keeps them different."""


def _chunks() -> list[tuple[str, int]]:
    each = share(60 / CHUNK, len(FAMILIES), 1)
    return [(family, number) for family in FAMILIES for number in range(each)]


@pytest.mark.parametrize(("family", "chunk"), _chunks())
def test_kept_answers_equal_duckdb(family: str, chunk: int, outcome: Callable[[str], None]) -> None:
    found = try_cases(cases(family), f"{family}/{chunk}", CHUNK, check_case, outcome)
    if found is not None:
        case, why = found
        where = f"seed {SEED} family {family} chunk {chunk}; as a file: {write_slt(case, why)}"
        pytest.fail(f"{where}\n\n{as_slt(case, why)}", pytrace=False)


@pytest.mark.parametrize("chunk", range(share(15 / CHUNK, 1, 2)))
def test_statements_change_tables_as_in_duckdb(chunk: int, outcome: Callable[[str], None]) -> None:
    found = try_cases(dml_cases(), f"dml/{chunk}", CHUNK, check_dml_case, outcome)
    if found is not None:
        case, why = found
        where = f"seed {SEED} dml chunk {chunk}; as a file: {write_slt(case, why)}"
        pytest.fail(f"{where}\n\n{dml_as_slt(case, why)}", pytrace=False)
