"""What a state server counts: requests, keys, failures by their code, and how long answers take."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

from runtime.core.metrics import Histogram, Metric, Sample

__all__ = ["STATE_METRICS", "Statistics"]

_OPERATION, _CODE = ("operation",), ("code",)
REQUESTS = Metric(
    "sqlengine_state_requests_total", "counter", "", _OPERATION, "requests to the state server", "numRequests"
)
SUCCESSES = Metric(
    "sqlengine_state_answers_total", "counter", "", _OPERATION, "requests that were answered", "numSuccessfulRequests"
)
FAILURES = Metric(
    "sqlengine_state_failures_total", "counter", "", _CODE, "requests that failed, by the code of the error",
    "numFailedRequests",
)  # fmt: skip
KEYS = Metric("sqlengine_state_keys_total", "counter", "", (), "keys that were looked up")
WAITING = Metric("sqlengine_state_requests_waiting", "gauge", "", (), "requests that wait for a thread or are answered")
BYTES = Metric("sqlengine_state_followed_bytes", "gauge", "bytes", (), "memory of the state that is followed")
SECONDS = Metric(
    "sqlengine_state_request_seconds", "histogram", "seconds", _OPERATION, "time from a request to its answer"
)

STATE_METRICS = (REQUESTS, SUCCESSES, FAILURES, KEYS, WAITING, BYTES, SECONDS)
_OPERATIONS = ("lookup", "scan", "states")


class Statistics:
    """Any thread may count."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._answered: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._keys = 0
        self._seconds = {operation: Histogram() for operation in _OPERATIONS}

    def asked(self, operation: str) -> None:
        """A request has come."""
        with self._guard:
            self._requests[operation if operation in _OPERATIONS else "unknown"] += 1

    def answered(self, operation: str, keys: int, seconds: float) -> None:
        """It was answered."""
        with self._guard:
            self._answered[operation] += 1
            self._keys += keys
            self._seconds[operation].observe(seconds)

    def failed(self, code: str) -> None:
        """It has failed."""
        with self._guard:
            self._failed[code] += 1

    def samples(self, waiting: int, nbytes: int) -> Iterator[Sample]:
        """All figures."""
        with self._guard:
            requests, answered, failed = dict(self._requests), dict(self._answered), dict(self._failed)
        for operation, count in sorted(requests.items()):
            yield REQUESTS.sample(count, operation)
        for operation, count in sorted(answered.items()):
            yield SUCCESSES.sample(count, operation)
        for code, count in sorted(failed.items()):
            yield FAILURES.sample(count, code)
        yield KEYS.sample(self._keys)
        yield WAITING.sample(waiting)
        yield BYTES.sample(nbytes)
        for operation, histogram in self._seconds.items():
            yield from histogram.samples(SECONDS, operation)
