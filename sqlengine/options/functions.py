"""The options of Python functions."""

from __future__ import annotations

from runtime.core.options import duration_option, int_option, text_option

__all__ = [
    "ASYNC_AT_ONCE",
    "ASYNC_ATTEMPTS",
    "ASYNC_DELAY",
    "ASYNC_RETRY",
    "ASYNC_TIMEOUT",
    "FUNCTION_OPTIONS",
    "JOB_PARAMETERS",
    "ON_ERROR",
    "TIMEOUT",
]

ON_ERROR = text_option(
    "sqlengine.functions.on-error",
    "fail",
    "what happens to a row for which a Python function raises: fail ends the job, reject sends the row to system.rejected",
    ("fail", "reject"),
)
TIMEOUT = duration_option(
    "sqlengine.functions.timeout",
    0,
    "how long a call of a Python function may take, such as 5 s; 0: as long as it wants",
)
JOB_PARAMETERS = text_option(
    "pipeline.global-job-parameters",
    "",
    "what Python functions read with get_job_parameter: key:value, several with commas between; quotes hold a comma or colon",
)
ASYNC_AT_ONCE = int_option(
    "table.exec.async-scalar.max-concurrent-operations",
    10,
    "how many calls of an async Python function are awaited at once",
)
ASYNC_TIMEOUT = duration_option(
    "table.exec.async-scalar.timeout",
    180_000,
    "how long a call of an async function may take, its repetitions included",
)
ASYNC_RETRY = text_option(
    "table.exec.async-scalar.retry-strategy",
    "FIXED_DELAY",
    "whether a call of an async function that fails is repeated",
    ("FIXED_DELAY", "NO_RETRY"),
)
ASYNC_DELAY = duration_option(
    "table.exec.async-scalar.retry-delay", 100, "how long a call of an async function waits before it is repeated"
)
ASYNC_ATTEMPTS = int_option(
    "table.exec.async-scalar.max-attempts", 3, "how often a call of an async function is made at most"
)

FUNCTION_OPTIONS = (
    ON_ERROR,
    TIMEOUT,
    JOB_PARAMETERS,
    ASYNC_AT_ONCE,
    ASYNC_TIMEOUT,
    ASYNC_RETRY,
    ASYNC_DELAY,
    ASYNC_ATTEMPTS,
)
