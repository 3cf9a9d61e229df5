"""Figures of what runs, asked for when somebody looks.

A figure is declared once (`Metric`) and has a value for each set of labels (`Sample`). Nothing is counted for it while rows
run: whoever has figures anyway adds a collector to the `MetricsRegistry`, which is called by `collect`. Only durations are
counted as they happen, once for an epoch or a checkpoint (`Histogram`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

__all__ = ["Histogram", "Metric", "MetricsRegistry", "Sample", "exposition"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure.

    Args:
        name: as Prometheus wants it: `sqlengine_`, what it is about, the unit, `_total` behind a counter.
        kind: a counter only grows, except when a job goes back to a checkpoint or begins anew.
        unit: `rows`, `bytes`, `seconds`; empty for a plain number.
        labels: which labels its samples have.
        help: one sentence without a full stop.
        flink: what Flink calls the same figure, if it has it.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    labels: tuple[str, ...]
    help: str
    flink: str = ""

    def sample(self, value: float, *labels: str) -> Sample:
        """Its value for these labels, in their order."""
        return Sample(self, value, tuple(zip(self.labels, labels, strict=True)))


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of a metric for some labels. `suffix`: what stands behind the metric's name, for parts of a histogram."""

    metric: Metric
    value: float
    labels: tuple[tuple[str, str], ...]
    suffix: str = ""

    @property
    def name(self) -> str:
        return self.metric.name + self.suffix


class Histogram:
    """How often something took how long, in buckets whose bounds grow by factors of 2 to 2.5. Written by one thread at a
    time; whoever reads meanwhile may miss the newest duration."""

    BOUNDS: Final = tuple(step * 10.0**power for power in range(-4, 3) for step in (1, 2.5, 5))
    """Seconds: 100 µs to 500 s. A duration counts for the first bound that is not below it."""

    __slots__ = ("_counts", "_seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(self.BOUNDS) + 1)
        self._seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Something has taken so long."""
        self._counts[bisect_left(self.BOUNDS, seconds)] += 1
        self._seconds += seconds

    @property
    def count(self) -> int:
        """How many durations it has."""
        return sum(self._counts)

    def samples(self, metric: Metric, *labels: str) -> Iterator[Sample]:
        """Its buckets, each with all that is not above its bound (label `le`), the sum and the number of durations."""
        named = tuple(zip(metric.labels, labels, strict=True))
        up_to = list(accumulate(self._counts))
        for bound, count in zip((*map(_number, self.BOUNDS), "+Inf"), up_to, strict=True):
            yield Sample(metric, count, (*named, ("le", bound)), "_bucket")
        yield Sample(metric, self._seconds, named, "_sum")
        yield Sample(metric, up_to[-1], named, "_count")


def _number(bound: float) -> str:
    return f"{bound:g}"


class MetricsRegistry:
    """Where figures come from."""

    def __init__(self) -> None:
        self._collectors: list[Callable[[], Iterable[Sample]]] = []

    def add(self, collector: Callable[[], Iterable[Sample]]) -> None:
        """Ask this, too, for samples. It is called by any thread, and must not wait for a job."""
        self._collectors.append(collector)

    def collect(self) -> list[Sample]:
        """All samples as they are now, those of a metric one after another."""
        found: dict[str, list[Sample]] = {}
        for collector in tuple(self._collectors):
            for sample in collector():
                found.setdefault(sample.metric.name, []).append(sample)
        return [sample for samples in found.values() for sample in samples]


_ESCAPED: Mapping[int, str] = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_ESCAPED_HELP: Mapping[int, str] = str.maketrans({"\\": r"\\", "\n": r"\n"})


def exposition(samples: Iterable[Sample]) -> str:
    """Samples as the text that Prometheus reads (format 0.0.4, `text/plain; version=0.0.4; charset=utf-8`). Samples of a
    metric must stand together, as `collect` gives them.

    Source: prometheus.io, Exposition formats.
    """
    lines: list[str] = []
    last = ""
    for sample in samples:
        metric = sample.metric
        if metric.name != last:
            last = metric.name
            lines.append(f"# HELP {metric.name} {metric.help.translate(_ESCAPED_HELP)}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
        labels = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in sample.labels)
        value = int(sample.value) if sample.value == sample.value // 1 else sample.value
        lines.append(f"{sample.name}{{{labels}}} {value}" if labels else f"{sample.name} {value}")
    return "".join(f"{line}\n" for line in lines)
