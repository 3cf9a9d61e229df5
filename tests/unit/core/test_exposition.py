"""Figures: buckets, the registry, and the text that Prometheus reads."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.metrics import Histogram, Metric, MetricsRegistry, Sample, exposition
from tests.exposition import parse

SECONDS = Metric("sqlengine_took_seconds", "histogram", "seconds", ("job",), "how long")
ROWS = Metric("sqlengine_rows_total", "counter", "rows", ("job", "path"), "rows\nof a \\ path")


@given(st.lists(st.floats(0, 1_000, allow_nan=False)))
def test_each_duration_is_in_the_buckets_that_are_not_below_it(durations: list[float]) -> None:
    histogram = Histogram()
    for duration in durations:
        histogram.observe(duration)
    family = parse(exposition(histogram.samples(SECONDS, "j")))["sqlengine_took_seconds"]
    for bound in Histogram.BOUNDS:
        key = "sqlengine_took_seconds_bucket", (("job", "j"), ("le", f"{bound:g}"))
        assert family.samples[key] == sum(duration <= bound for duration in durations)
    assert histogram.count == family.samples["sqlengine_took_seconds_count", (("job", "j"),)] == len(durations)
    assert math.isclose(family.samples["sqlengine_took_seconds_sum", (("job", "j"),)], sum(durations), abs_tol=1e-9)


def test_bounds_are_round_and_grow() -> None:
    shown = [f"{bound:g}" for bound in Histogram.BOUNDS]
    assert shown[:4] == ["0.0001", "0.00025", "0.0005", "0.001"] and shown[-1] == "500"
    assert [float(bound) for bound in shown] == sorted(Histogram.BOUNDS)


@given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False, min_value=0))
def test_any_label_and_value_comes_back(job: str, path: str, value: float) -> None:
    # A line ends with \n alone; splitlines knows more signs, which no name of ours has.
    job, path = ("".join(c for c in text if c == "\n" or c.isprintable()) for text in (job, path))
    family = parse(exposition([ROWS.sample(value, job, path)]))["sqlengine_rows_total"]
    assert family.samples == {("sqlengine_rows_total", (("job", job), ("path", path))): value}
    assert family.help == "rows\\nof a \\\\ path"


def test_samples_of_a_metric_stand_together_whoever_collects_them() -> None:
    registry = MetricsRegistry()
    for job in ("a", "b"):
        registry.add(lambda job=job: [ROWS.sample(1, job, "x"), *Histogram().samples(SECONDS, job)])
    found = parse(exposition(registry.collect()))
    assert [len(family.samples) for family in found.values()] == [2, 2 * (len(Histogram.BOUNDS) + 3)]


def test_a_sample_has_all_labels() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ROWS.sample(1, "j")
    assert exposition([]) == "" and exposition([Sample(ROWS, 2.5, ())]).endswith("sqlengine_rows_total 2.5\n")


@pytest.mark.parametrize(
    "text",
    ["a 1\n", "# HELP a x\n# TYPE a gauge\na 1", "# HELP a x\n# TYPE a gauge\na{b=1} 1\n", "# HELP a x\n# TYPE a gauge\na 1\na 1\n"],
)  # fmt: skip
def test_the_reader_refuses_what_is_no_exposition(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)
