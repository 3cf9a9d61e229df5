"""Views that are given one generated query after another. FUZZ_CASES and FUZZ_SEED as in `test_fuzz`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.oracle.compare_replaced import check_replaced_case
from tests.oracle.generate_replaced import replaced_cases
from tests.oracle.outcomes import SEED, share, try_cases

CHUNK = 15


@pytest.mark.parametrize("chunk", range(share(10 / CHUNK, 1, 2)))
def test_a_replaced_view_has_the_answer_of_its_newest_query(chunk: int, outcome: Callable[[str], None]) -> None:
    found = try_cases(replaced_cases(), f"replaced/{chunk}", CHUNK, check_replaced_case, outcome)
    if found is not None:
        case, why = found
        tables = ";\n".join(t.ddl() for t in case.tables)
        pytest.fail(f"seed {SEED} chunk {chunk}, {case.life.label}\n{why}\n\n{tables};\n{case.sql.ours}", pytrace=False)
