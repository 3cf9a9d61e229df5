"""The master of a session: one of this machine tries tasks again, as a cluster does."""

from __future__ import annotations

import pytest

from runtime.core.errors import SparkError
from runtime.spark.session import _with_retries, spark_session


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


def test_a_program_does_not_start_itself_on_the_cluster() -> None:
    with pytest.raises(SparkError, match="this program is the driver") as told:
        spark_session("spark://host:7077", {"spark.submit.deployMode": "cluster"})
    assert told.value.code == "E3604"
    assert "spark-submit --deploy-mode cluster" in str(told.value.hint)
