"""How long a statement may go on after Ctrl-C: `python -m tests.benchmarks.stops [--rows N] [NAME ..]`.

Work looks between its pieces whether it is to stop, so the longest time between two looks is the longest wait for the
prompt. Printed are that time by the clock and of the processor, and where in the code it was spent. Writes nothing.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runtime.core.cancellation import Cancellation
from runtime.local.job import Job
from sqlengine import TableEnvironment

__all__ = ["main"]

SAMPLE_SECONDS = 0.02
SHOWN_FRAMES = 4
TOLD_SECONDS = 0.3

TABLES = """
CREATE TABLE n (id BIGINT, k INT, g BIGINT, s STRING, d DECIMAL(18, 2), f DOUBLE, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'datagen', 'number-of-rows' = '{rows}', 'seed' = '7', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
  'fields.id.end' = '{rows}', 'fields.k.min' = '1', 'fields.k.max' = '100', 'fields.g.min' = '1', 'fields.g.max' = '{rows}',
  'fields.s.length' = '12');
CREATE TABLE few (k INT, v INT);
INSERT INTO few VALUES {few};
CREATE TABLE bag (id BIGINT, k INT, s STRING);
CREATE TABLE keyed (id BIGINT, k INT, s STRING, PRIMARY KEY (id) NOT ENFORCED);
CREATE TABLE appended (id BIGINT, k INT, s STRING) WITH ('changelog-mode' = 'append');
"""

STATEMENTS = {
    "count": "SELECT COUNT(*) FROM n",
    "sum over": "SELECT COUNT(x) FROM (SELECT SUM(g) OVER (ORDER BY id) AS x FROM n)",
    "sum over partitions": "SELECT COUNT(x) FROM (SELECT SUM(g) OVER (PARTITION BY k ORDER BY g) AS x FROM n)",
    "sum over rows": "SELECT COUNT(x) FROM (SELECT SUM(f) OVER (ORDER BY g ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS x FROM n)",
    "max over rows": "SELECT COUNT(x) FROM (SELECT MAX(g) OVER (ORDER BY id ROWS BETWEEN 99 PRECEDING AND CURRENT ROW) AS x FROM n)",
    "decimal sum over": "SELECT COUNT(x) FROM (SELECT SUM(d) OVER (PARTITION BY k ORDER BY id) AS x FROM n)",
    "row_number": "SELECT COUNT(x) FROM (SELECT ROW_NUMBER() OVER (ORDER BY s) AS x FROM n)",
    "rank": "SELECT COUNT(x) FROM (SELECT RANK() OVER (PARTITION BY k ORDER BY s) AS x FROM n)",
    "lag": "SELECT COUNT(x) FROM (SELECT LAG(s) OVER (ORDER BY id) AS x FROM n)",
    "ntile": "SELECT COUNT(x) FROM (SELECT NTILE(10) OVER (ORDER BY g) AS x FROM n)",
    "listagg": "SELECT k, CHAR_LENGTH(LISTAGG(s)) FROM n GROUP BY k",
    "listagg of one group": "SELECT CHAR_LENGTH(LISTAGG(s)) FROM n",
    "array_agg": "SELECT k, CARDINALITY(ARRAY_AGG(g)) FROM n GROUP BY k",
    "array_agg distinct": "SELECT k, CARDINALITY(ARRAY_AGG(DISTINCT s)) FROM n GROUP BY k",
    "collect": "SELECT k, CARDINALITY(COLLECT(k)) FROM n GROUP BY k",
    "json_arrayagg": "SELECT k, CHAR_LENGTH(JSON_ARRAYAGG(s)) FROM n GROUP BY k",
    "json_objectagg": "SELECT k, CHAR_LENGTH(JSON_OBJECTAGG(KEY s VALUE g)) FROM n GROUP BY k",
    "count distinct": "SELECT COUNT(DISTINCT s) FROM n",
    "many groups": "SELECT COUNT(*) FROM (SELECT g, SUM(f), MAX(s) FROM n GROUP BY g)",
    "text groups": "SELECT COUNT(*) FROM (SELECT s, COUNT(*) FROM n GROUP BY s)",
    "percentile": "SELECT k, PERCENTILE(f, 0.5) FROM n GROUP BY k",
    "first_value": "SELECT k, FIRST_VALUE(s), LAST_VALUE(s) FROM n GROUP BY k",
    "stddev": "SELECT k, STDDEV_POP(f), VAR_SAMP(d) FROM n GROUP BY k",
    "limit": "SELECT id FROM n LIMIT {rows}",
    "limit offset": "SELECT COUNT(*) FROM (SELECT id, s FROM n LIMIT {half} OFFSET {half})",
    "order by": "SELECT id, s FROM n ORDER BY s",
    "order by number": "SELECT id, g FROM n ORDER BY g DESC, id",
    "order by limit": "SELECT id, s FROM n ORDER BY s LIMIT 1000000",
    "top-n": "SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY g) AS r FROM n) WHERE r <= 10000",
    "deduplicate": "SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY id DESC) AS r FROM n) WHERE r = 1",
    "join": "SELECT COUNT(*) FROM n AS a JOIN n AS b ON a.id = b.g",
    "text join": "SELECT COUNT(*) FROM n AS a JOIN n AS b ON a.s = b.s",
    "left join": "SELECT COUNT(b.s) FROM n AS a LEFT JOIN n AS b ON a.id = b.g AND a.k < b.k",
    "join of a few": "SELECT SUM(v) FROM n JOIN few ON n.k = few.k",
    "semi join": "SELECT COUNT(*) FROM n WHERE g IN (SELECT id FROM n WHERE k < 50)",
    "anti join": "SELECT COUNT(*) FROM n AS a WHERE NOT EXISTS (SELECT 1 FROM n AS b WHERE b.g = a.id)",
    "distinct": "SELECT COUNT(*) FROM (SELECT DISTINCT k, s FROM n)",
    "union": "SELECT COUNT(*) FROM (SELECT g FROM n UNION SELECT id FROM n)",
    "except": "SELECT COUNT(*) FROM (SELECT id FROM n EXCEPT SELECT g FROM n)",
    "texts": "SELECT MAX(CONCAT(UPPER(s), REPLACE(s, 'a', 'bb'), CAST(g AS STRING))) FROM n",
    "decimals": "SELECT SUM(d * d / 3), MAX(CAST(d AS STRING)) FROM n",
    "unnest": "SELECT COUNT(*) FROM n CROSS JOIN UNNEST(ARRAY[k, k + 1]) AS u (x)",
    "grouping sets": "SELECT COUNT(*) FROM (SELECT k, g, COUNT(*) FROM n GROUP BY CUBE (k, g))",
    "insert": "INSERT INTO bag SELECT id, k, s FROM n",
    "insert by key": "INSERT INTO keyed SELECT id, k, s FROM n",
    "insert appended": "INSERT INTO appended SELECT id, k, s FROM n",
    "update": "UPDATE bag SET k = k + 1",
    "delete": "DELETE FROM bag WHERE k > 50",
    "update by key": "UPDATE keyed SET k = k + 1",
    "delete by key": "DELETE FROM keyed WHERE k > 50",
    "create table as": "CREATE TABLE made AS SELECT id, s FROM n",
    "create view": "CREATE MATERIALIZED VIEW seen AS SELECT k, COUNT(*) AS c, MAX(s) AS m FROM appended GROUP BY k",
    "from memory": "SELECT k, MAX(s) FROM appended GROUP BY k",
    "sort from memory": "SELECT id, s FROM appended ORDER BY s",
}


class Meter(Cancellation):
    """Never asked; notes the longest time between two looks, and what its thread did in it."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = self.of_processor = 0.0
        self.place: tuple[str, ...] = ()
        self.long: Counter[tuple[str, ...]] = Counter()
        self.samples: Counter[tuple[str, ...]] = Counter()
        self.begin()

    def begin(self) -> None:
        """From now on."""
        self._seen, self._seen_by_processor = time.perf_counter(), time.process_time()
        self.samples.clear()

    def look(self) -> None:
        now, processor = time.perf_counter(), time.process_time()
        gap = now - self._seen
        if gap > TOLD_SECONDS and self.samples:
            self.long[self.samples.most_common(1)[0][0]] += 1
        if gap > self.longest:
            self.longest, self.of_processor = gap, processor - self._seen_by_processor
            self.place = self.samples.most_common(1)[0][0] if self.samples else ()
        self.begin()


@contextmanager
def sampled(meter: Meter) -> Iterator[None]:
    """Meanwhile another thread notes where this one is."""
    over, me = threading.Event(), threading.get_ident()

    def sample() -> None:
        while not over.wait(SAMPLE_SECONDS):
            frame = sys._current_frames().get(me)
            if frame is not None:
                meter.samples[_ours(frame)] += 1

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _ours(frame: FrameType) -> tuple[str, ...]:
    lines = [f"{f.filename.rpartition('/')[2]}:{f.lineno} {f.name}" for f in traceback.extract_stack(frame)]
    return tuple(reversed(lines[-SHOWN_FRAMES:]))


def main(argv: list[str] | None = None) -> None:
    """Print a line for each statement, all of them when none is named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args(argv)
    rows = asked.rows
    with TableEnvironment.create() as t_env:
        few = ", ".join(f"({k}, {k})" for k in range(1, 101))
        t_env.execute_script(TABLES.format(rows=rows, few=few))
        for name, sql in STATEMENTS.items():
            if asked.names and name not in asked.names:
                continue
            meter = Meter()

            def watch(job: Job, meter: Meter = meter) -> None:
                job.cancellation = meter

            t_env.session.on_job = watch
            started = time.perf_counter()
            with sampled(meter), meter.governing():
                meter.begin()
                result = t_env.execute_sql(sql.format(rows=rows, half=rows // 2))
                if result.is_query:
                    for _ in result.batches() if hasattr(result, "batches") else (result.to_arrow(),):
                        meter.look()
                meter.look()
            print(
                f"{name:<22} {time.perf_counter() - started:6.1f} s, longest {meter.longest:5.2f} s "
                f"({meter.of_processor:5.2f} of the processor) {' < '.join(meter.place)}",
                flush=True,
            )
            for place, times in meter.long.most_common(5):
                print(f"{'':<22} {times:4} times over {TOLD_SECONDS:g} s: {' < '.join(place)}", flush=True)


if __name__ == "__main__":
    main()
