"""What a function is told when it is opened: `FunctionContext`, its figures and its job, as in PyFlink.

class Scored(ScalarFunction):
    def open(self, context):
        self.seen = context.get_metric_group().counter("seen")
        self.factor = float(context.get_job_parameter("factor", "1"))

Figures are shown by `system.metrics`. They count what this run of the job has done: they are no part of the state.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from runtime.core.logs import Log
from runtime.core.options import Options
from runtime.expr.job_functions import FunctionFigure, FunctionJob
from sqlengine.options.functions import JOB_PARAMETERS

__all__ = ["Counter", "Distribution", "FunctionContext", "Meter", "MetricGroup", "job_parameters"]

_log = Log("jobs")


def job_parameters(options: Options) -> Mapping[str, str]:
    """The parameters of jobs as Flink writes maps: `a:1,b:'x,y'`. Raises OptionError for another text."""
    return _pairs(options.get(JOB_PARAMETERS))


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in _split(text, ","):
        if part.strip():
            key, *value = _split(part, ":")
            # Further colons belong to the value, as in a URI.
            found[_unquoted(key)] = _unquoted(":".join(value))
    return found


def _split(text: str, at: str) -> list[str]:
    """The parts between separators that stand outside quotes."""
    parts, quote = [""], ""
    for character in text:
        if character == at and not quote:
            parts.append("")
            continue
        if character in "'\"":
            quote = "" if quote == character else quote or character
        parts[-1] += character
    return parts


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace(text[0] * 2, text[0])
    return text


class Counter:
    """A number that is counted up and down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Count up."""
        with self._lock:
            self._count += n

    def dec(self, n: int = 1) -> None:
        """Count down."""
        self.inc(-n)

    def get_count(self) -> int:
        """The number."""
        return self._count

    def parts(self) -> Iterator[tuple[str, float]]:
        yield "", self._count


class Meter:
    """Events, and how many of them there were in a second, over a span of time.

    Args:
        span: seconds over which the rate is taken.
    """

    def __init__(self, span: int) -> None:
        self._lock = threading.Lock()
        self._span = max(span, 1)
        self._count = 0
        self._seconds: deque[tuple[int, int]] = deque()

    def mark_event(self, value: int = 1) -> None:
        """So many events have happened."""
        now = int(time.monotonic())
        with self._lock:
            self._count += value
            if self._seconds and self._seconds[-1][0] == now:
                self._seconds[-1] = (now, self._seconds[-1][1] + value)
            else:
                self._seconds.append((now, value))
                self._forget(now)

    def get_count(self) -> int:
        """All events."""
        return self._count

    def get_rate(self) -> float:
        """Events in a second."""
        with self._lock:
            self._forget(int(time.monotonic()))
            return sum(n for _, n in self._seconds) / self._span

    def _forget(self, now: int) -> None:
        while self._seconds and self._seconds[0][0] <= now - self._span:
            self._seconds.popleft()

    def parts(self) -> Iterator[tuple[str, float]]:
        yield "count", self._count
        yield "rate", self.get_rate()


class Distribution:
    """How values are spread: their number, sum, least and greatest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count, self._sum = 0, 0.0
        self._least, self._greatest = 0.0, 0.0

    def update(self, value: float) -> None:
        """A further value."""
        with self._lock:
            self._least = min(self._least, value) if self._count else value
            self._greatest = max(self._greatest, value) if self._count else value
            self._count += 1
            self._sum += value

    def parts(self) -> Iterator[tuple[str, float]]:
        yield "count", self._count
        yield "sum", self._sum
        if self._count:
            yield "min", self._least
            yield "max", self._greatest


class _Gauge:
    """What a function of the user's gives when somebody looks. One that fails has no value, which is logged once: a figure
    is no reason to end a job, or to show none of the others."""

    def __init__(self, name: str, value: Callable[[], float]) -> None:
        self._name = name
        self._value = value
        self._told = False

    def parts(self) -> Iterator[tuple[str, float]]:
        try:
            yield "", float(self._value())
        except Exception as error:
            if not self._told:
                self._told = True
                _log.warning("the gauge %s has no value: %s: %s", self._name, type(error).__name__, error)


_KINDS: Mapping[type, str] = {Counter: "counter", Meter: "meter", Distribution: "distribution", _Gauge: "gauge"}


M = TypeVar("M", Counter, Meter, Distribution)


class MetricGroup:
    """Where a function finds its figures. A group in a group has its name before theirs, with a dot between."""

    def __init__(self, prefix: str, kept: dict[str, Counter | Meter | Distribution | _Gauge]) -> None:
        self._prefix = prefix
        self._kept = kept

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group within: `add_group("model")`, or of a name and a value `add_group("model", "small")`."""
        inner = name if extra is None else f"{name}.{extra}"
        return MetricGroup(f"{self._prefix}{inner}.", self._kept)

    def counter(self, name: str) -> Counter:
        """The counter of this name."""
        return self._of(name, Counter())

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """The meter of this name."""
        return self._of(name, Meter(time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        """The distribution of this name."""
        return self._of(name, Distribution())

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """A number that is asked for when somebody looks, in the thread of whoever looks."""
        self._kept[self._prefix + name] = _Gauge(self._prefix + name, obj)

    def _of(self, name: str, made: M) -> M:
        """What the function has under a name already, of the same kind; else a new one."""
        found = self._kept.get(self._prefix + name)
        if isinstance(found, type(made)):
            return found
        self._kept[self._prefix + name] = made
        return made


class FunctionContext:
    """The argument of `open`.

    Args:
        function: the function's name.
        job: its job; None outside of jobs (a constant that is computed while a query is planned).
    """

    def __init__(self, function: str = "", job: FunctionJob | None = None) -> None:
        self._function = function
        self._job = job or FunctionJob("", Options())
        self._parameters = job_parameters(self._job.options)
        self._kept: dict[str, Counter | Meter | Distribution | _Gauge] = {}
        self._job.figures.append(self._figures)

    def get_metric_group(self) -> MetricGroup:
        """The function's figures, which `system.metrics` shows."""
        return MetricGroup("", self._kept)

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A parameter that `SET 'pipeline.global-job-parameters' = 'key:value'` has given the job."""
        return self._parameters.get(key, default_value)

    def get_task_name(self) -> str:
        """The name of the job."""
        return self._job.name

    def get_task_name_with_subtasks(self) -> str:
        """The same with the number of the task, as in `job-1 (1/3)`."""
        return f"{self._job.name} ({self._job.task + 1}/{self._job.tasks})"

    def get_number_of_parallel_subtasks(self) -> int:
        """How many processes or Spark tasks call the function, each with an instance of its own."""
        return self._job.tasks

    def get_max_number_of_parallel_subtasks(self) -> int:
        """The same: an instance belongs to no group of keys."""
        return self._job.tasks

    def get_index_of_this_subtask(self) -> int:
        """Which of them this is, from 0."""
        return self._job.task

    def get_attempt_number(self) -> int:
        """How often the job has been restarted."""
        return self._job.attempt

    def _figures(self) -> Iterable[FunctionFigure]:
        for name, metric in tuple(self._kept.items()):
            for part, value in metric.parts():
                yield FunctionFigure(self._function, _KINDS[type(metric)], name, part, self._job.task, value)
