"""Temporal joins with versions of equal times, by key and as last rows: the answer is that of a naive search in order of
arrival, and does not depend on how the input is cut into statements."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from sqlengine.api.environment import TableEnvironment

Version = tuple[str, int, int]
Order = tuple[int, str, int]
DELAY, SECONDS, LAST = 5, 30, 10_000

VERSIONED = {
    "a key": "rates",
    "a view of last rows": "(SELECT k, v, at FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at DESC) AS n "
    "FROM rates) WHERE n = 1)",
}


def _time(second: int) -> str:
    return f"TIMESTAMP '2024-01-01 {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}'"


def _draw(chance: random.Random) -> tuple[list[Version], list[Order]]:
    """Both in order of arrival, never later than the watermark allows; many at the same second."""
    versions: list[Version] = []
    orders: list[Order] = []
    now = 0
    for number in range(chance.randint(10, 40)):
        now = min(now + chance.choice((0, 0, 1, 2)), SECONDS)
        at = max(0, now - chance.choice((0, 0, 1, DELAY - 1)))
        versions.append((chance.choice("ab"), number, at))
        orders.append((number, chance.choice("abc"), max(0, now - chance.choice((0, 1, 2)))))
    return versions, orders


def _valid(versions: Sequence[Version], order: Order) -> int | None:
    """Of the versions of the key up to the order's time the newest one, the last to come among those of one time."""
    best: Version | None = None
    for version in versions:
        if version[0] == order[1] and version[2] <= order[2] and (best is None or version[2] >= best[2]):
            best = version
    return None if best is None else best[1]


def _insert(environment: TableEnvironment, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    values = ", ".join(f"({a!r}, {b!r}, {_time(at)})" for a, b, at in rows)  # type: ignore[arg-type]
    environment.execute_sql(f"INSERT INTO {table} VALUES {values}")


@pytest.mark.parametrize("versioned", VERSIONED)
@pytest.mark.parametrize("seed", range(6))
def test_the_last_of_equal_versions_is_valid(versioned: str, seed: int) -> None:
    chance = random.Random(seed)
    versions, orders = _draw(chance)
    wanted = {order[0]: _valid(versions, order) for order in orders}
    assert len(set(wanted.values())) > 3
    for most in (1, 4, 100):
        with TableEnvironment.create({}) as environment:
            environment.session.harness.checked = True
            key = ", PRIMARY KEY (k) NOT ENFORCED" if versioned == "a key" else ""
            environment.execute_script(
                f"CREATE TABLE rates (k STRING, v INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '{DELAY}' "
                f"SECOND{key}); CREATE TABLE orders (id INT, k STRING, at TIMESTAMP(3), WATERMARK FOR at AS at - "
                f"INTERVAL '{DELAY}' SECOND); CREATE VIEW valid AS SELECT * FROM {VERSIONED[versioned]} AS r;"
                "CREATE MATERIALIZED VIEW priced AS SELECT o.id, r.v FROM orders o LEFT JOIN "
                f"{'rates' if key else 'valid'} FOR SYSTEM_TIME AS OF o.at AS r ON o.k = r.k"
            )
            waiting = {"rates": list(versions), "orders": list(orders)}
            while any(waiting.values()):
                for table, rows in waiting.items():
                    size = chance.randint(1, most)
                    if rows:
                        _insert(environment, table, rows[:size])
                        del rows[:size]
            _insert(environment, "orders", [(-1, "z", LAST)])
            _insert(environment, "rates", [("z", -1, LAST)])
            found = environment.execute_sql("SELECT id, v FROM priced WHERE id >= 0").to_arrow()
            assert dict(zip(*(c.to_pylist() for c in found.columns), strict=True)) == wanted, f"{most} rows an epoch"
            assert environment.session.rejected.total == 0
