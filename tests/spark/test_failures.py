"""Causes of failures in Spark, from what its exceptions say."""

from __future__ import annotations

import pytest

from runtime.spark.session import reached

TRACE = (
    "\n\tat org.apache.spark.rdd.RDD.iterator(RDD.scala:338)\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
)
AWAIT = (
    "An error occurred while calling o51.getResult.\n: org.apache.spark.SparkException: Exception thrown in awaitResult: "
    + TRACE
)


@pytest.mark.parametrize(
    ("text", "cause", "hint"),
    [
        (
            f"{AWAIT}Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading"
            f" file file:///d/part-0.parquet. File does not exist. SQLSTATE: KD001{TRACE}",
            "the file file:///d/part-0.parquet that a DataFrame or table reads is not there any more",
            "REFRESH TABLE",
        ),
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/d/never. SQLSTATE: 42K03",
            "the path file:/d/never is not there",
            "check",
        ),
        (
            f"{AWAIT}Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 3.0 failed 4"
            " times, most recent failure: Lost task 1.3 in stage 3.0 (TID 9) (10.0.0.7 executor 2): ExecutorLostFailure (executor 2"
            f" exited caused by one of the running tasks) Reason: Command exited with code 137{TRACE}",
            "executor 2 was lost: Command exited with code 137",
            "spark.executor.memoryOverhead",
        ),
        (
            f"{AWAIT}Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting x{TRACE}",
            "a Python process of Spark has died: Python worker exited unexpectedly (crashed)",
            "memory",
        ),
        (
            'An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File "job.py", line 1, in f\n'
            "ValueError: my own error 0\n",
            "ValueError: my own error 0",
            "logs",
        ),
        (
            f"An error occurred while calling o30.sql.\n: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed"
            f" to find the data source: parquett.{TRACE}",
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: parquett.",
            "documentation",
        ),
        (
            f"An error occurred while calling o285.save.\n: java.sql.SQLException: No suitable driver{TRACE}",
            "SQLException: No suitable driver",
            "logs",
        ),
        ("'NoneType' object has no attribute 'sc'", "the Spark session was stopped", "new one"),
        ("Answer from Java side is empty", "the JVM of the Spark session is gone", "spark.driver.memory"),
        (f"{AWAIT}", "org.apache.spark.SparkException: Exception thrown in awaitResult:", "logs"),
        ("", "it does not say why", "logs"),
    ],
)
def test_the_cause_is_told(text: str, cause: str, hint: str) -> None:
    told = reached(RuntimeError(text))
    assert told.code == "E3600"
    assert told.message.removeprefix("Spark has failed: ") == cause
    assert hint in (told.hint or "")


def test_an_executor_without_python_is_told() -> None:
    missing = "error=2, No such file or directory"
    program = f'java.io.IOException: Cannot run program "./environment/bin/python": {missing}{TRACE}'
    told = reached(RuntimeError(f"{AWAIT}Caused by: {program}Caused by: java.io.IOException: {missing}{TRACE}"))
    assert told.code == "E3603"
    assert told.message == "an executor has no Python at ./environment/bin/python"
    assert "spark-package --environment" in str(told.hint)
