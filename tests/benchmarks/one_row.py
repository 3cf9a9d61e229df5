"""What one row costs: `python -m tests.benchmarks.one_row` inserts rows one at a time, an epoch each, into a table with
three views.

Printed per statement: the whole of it (parse, plan, run, publish), then the part in which the views follow, and within
that each operator.
Times are of the processor, in milliseconds, the median of the epochs, so that other programs disturb less. Writes
nothing.
"""

from __future__ import annotations

import statistics
import sys
import time

from sqlengine import TableEnvironment

__all__ = ["main"]

SCRIPT = """
CREATE TABLE orders (id INT PRIMARY KEY NOT ENFORCED, customer INT, amount DECIMAL(10, 2));
CREATE TABLE customers (id INT PRIMARY KEY NOT ENFORCED, name STRING);
INSERT INTO customers VALUES (0, 'ann'), (1, 'bob'), (2, 'cy');
CREATE MATERIALIZED VIEW totals AS SELECT customer, COUNT(*) AS orders, SUM(amount) AS total FROM orders GROUP BY customer;
CREATE MATERIALIZED VIEW named AS
SELECT o.id, c.name, o.amount FROM orders AS o JOIN customers AS c ON o.customer = c.id WHERE o.amount > 1;
CREATE MATERIALIZED VIEW best AS
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount DESC) AS place FROM orders) WHERE place <= 3
"""
WARM_UP = 50


def main(epochs: int = 500) -> None:
    """Insert so many rows."""
    with TableEnvironment.create() as environment:
        environment.execute_script(SCRIPT)
        views = environment.session.views
        follow, whole, parts = views.catch_up, [], []

        def timed() -> None:
            started = time.thread_time()
            follow()
            parts.append(time.thread_time() - started)

        views.propagate = timed  # type: ignore[method-assign]
        for row in range(WARM_UP + epochs):
            if row == WARM_UP:
                whole.clear()
                parts.clear()
                before = _busy(environment)
            started = time.thread_time()
            environment.execute_sql(f"INSERT INTO orders VALUES ({row}, {row % 3}, {row}.5)")
            whole.append(time.thread_time() - started)
        print(f"{'one INSERT of one row':<34} {statistics.median(whole) * 1e3:7.3f} ms")
        print(f"{'of which three views':<34} {statistics.median(parts) * 1e3:7.3f} ms")
        for name, seconds in _busy(environment).items():
            print(f"  {name:<32} {(seconds - before[name]) / epochs * 1e3:7.3f} ms (of the clock)")


def _busy(environment: TableEnvironment) -> dict[str, float]:
    return {
        f"{view.path.name}: {number} {type(vertex.node).__name__}": vertex.busy_seconds
        for view in environment.session.views.jobs()
        for number, vertex in enumerate(view.job.dataflow.vertices)
        if vertex.operator is not None
    }


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
