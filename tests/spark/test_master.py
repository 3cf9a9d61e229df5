"""The master of a session: one of this machine tries tasks again, as a cluster does."""

from __future__ import annotations

import pytest

from runtime.spark.session import _with_retries


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_this_machine_tries_tasks_again(given: str, used: str) -> None:
    assert _with_retries(given) == used
