"""How fast jobs work: what their counts have grown by between two looks. Nobody counts while nobody looks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runtime.local.job import Job

__all__ = ["Rate", "Rates"]

_LEAST_SECONDS = 1.0
"""Two looks that are nearer count as one."""
_WINDOW_SECONDS = 8.0
_KEPT = 16


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows in a second into and out of a job, and for each operator its rows in and out in a second and the share of the
    time in which it was busy."""

    rows_in: float
    rows_out: float
    operators: tuple[tuple[float, float, float], ...]

    @property
    def busy(self) -> float:
        """The share of the time in which the job was busy, at most 1."""
        return min(1.0, sum(share for _, _, share in self.operators))


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    counts: dict[Job, tuple[tuple[int, int, float], ...]]


class Rates:
    """Rates of the jobs that `jobs` gives. `clock` gives seconds."""

    def __init__(self, jobs: Callable[[], Sequence[Job]], clock: Callable[[], float]) -> None:
        self._jobs = jobs
        self._clock = clock
        self._looks: deque[_Look] = deque(maxlen=_KEPT)

    def look(self) -> dict[Job, Rate]:
        """The rates since a look some seconds ago; of jobs that were there then."""
        now = self._clock()
        current = _Look(now, {job: _counts(job) for job in self._jobs()})
        while len(self._looks) > 1 and now - self._looks[1].at > _WINDOW_SECONDS:
            self._looks.popleft()
        before = next((look for look in self._looks if now - look.at >= _LEAST_SECONDS), None)
        if not self._looks or now - self._looks[-1].at >= _LEAST_SECONDS:
            self._looks.append(current)
        if before is None:
            return {}
        seconds = now - before.at
        return {
            job: _rate(job, before.counts[job], counts, seconds)
            for job, counts in current.counts.items()
            # One that has started again counts anew.
            if len(before.counts.get(job, ())) == len(counts)
        }


def _counts(job: Job) -> tuple[tuple[int, int, float], ...]:
    return tuple((v.rows_in, v.rows_out, v.busy_seconds) for v in job.dataflow.vertices)


def _rate(
    job: Job, before: Sequence[tuple[int, int, float]], now: Sequence[tuple[int, int, float]], seconds: float
) -> Rate:
    def grown(new: float, old: float) -> float:
        return max(0.0, new - old) / seconds

    operators = tuple(
        (grown(a, x), grown(b, y), min(1.0, grown(c, z))) for (x, y, z), (a, b, c) in zip(before, now, strict=True)
    )
    # Without the lock the dataflow may be another one by now.
    vertices = job.dataflow.vertices[: len(operators)]
    return Rate(
        sum(rate[0] for rate, v in zip(operators, vertices, strict=False) if v.operator is None),
        sum(rate[0] for rate, v in zip(operators, vertices, strict=False) if v.node.table_use == "sink"),
        operators,
    )
