"""Input files of the fault suite's jobs, made from a seed: changes of small tables, and rows in order of time.

customers/   debezium-json   id (key), name, region            inserted, updated, deleted
products/    debezium-json   id (key), title, price            the same
orders/      debezium-json   id (key), customer, product, amount
rates/       debezium-json   currency (key), rate, at          versions, `at` ascending
clicks/      json            id, user_id, page, n, at          `at` up to 3 s out of order
payments/    json            id, click, currency, amount, at   of clicks
torn/        json            as clicks, but some records cannot be decoded, some have no page, some are late
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

__all__ = ["make_inputs"]

_START = dt.datetime(2024, 5, 1, 10)
_FILES = 3
Row = dict[str, Any]


def make_inputs(folder: Path, rows: int, seed: int = 1) -> None:
    """Write all inputs, of about so many rows each, each in three files."""
    rng = random.Random(seed)
    keys = max(4, rows // 12)
    _write(folder / "customers", _changes(rng, rows // 2, keys, lambda i: _customer(rng, i)))
    _write(folder / "products", _changes(rng, rows // 2, keys, lambda i: _product(rng, i)))
    _write(folder / "orders", _changes(rng, rows, rows // 2, lambda i: _order(rng, i, keys)))
    _write(folder / "rates", _rates(rng, rows // 3, rows))
    clicks = [_click(rng, i, keys) for i in range(rows)]
    _write(folder / "clicks", clicks)
    _write(folder / "torn", [_torn(rng, i, click) for i, click in enumerate(clicks)])
    _write(folder / "payments", [_payment(rng, i, rows) for i in range(rows // 2)])


def _write(folder: Path, rows: Iterable[Row]) -> None:
    folder.mkdir(parents=True)
    lines = [json.dumps(row) + "\n" for row in rows]
    size = -(-len(lines) // _FILES)
    for part in range(_FILES):
        (folder / f"{part}.jsonl").write_text("".join(lines[part * size : (part + 1) * size]))


def _changes(rng: random.Random, count: int, keys: int, make: Callable[[int], Row]) -> list[Row]:
    """Events of a table with a key: a row is inserted, updated, deleted, and maybe inserted again."""
    live: dict[int, Row] = {}
    events: list[Row] = []
    for _ in range(count):
        key = rng.randrange(keys)
        before = live.pop(key, None)
        if before is not None and rng.random() < 0.3:
            events.append({"before": before, "after": None, "op": "d"})
            continue
        live[key] = make(key)
        events.append({"before": before, "after": live[key], "op": "c" if before is None else "u"})
    return events


def _time(seconds: float) -> str:
    return (_START + dt.timedelta(milliseconds=int(seconds * 1000))).isoformat(" ", "milliseconds")


def _customer(rng: random.Random, i: int) -> Row:
    return {"id": i, "name": f"name {rng.randrange(100)}", "region": rng.choice(["north", "south", "east", None])}


def _product(rng: random.Random, i: int) -> Row:
    return {"id": i, "title": rng.choice("abcdefgh") * 3, "price": rng.randrange(1, 50)}


def _order(rng: random.Random, i: int, keys: int) -> Row:
    customer = None if rng.random() < 0.05 else rng.randrange(keys)
    return {"id": i, "customer": customer, "product": rng.randrange(keys), "amount": rng.randrange(1, 20)}


def _rates(rng: random.Random, count: int, rows: int) -> list[Row]:
    live: dict[str, Row] = {}
    events: list[Row] = []
    for i in range(count):
        name = rng.choice(["EUR", "USD", "JPY"])
        before = live.get(name)
        live[name] = {"currency": name, "rate": rng.randrange(1, 200), "at": _time(i * rows / max(1, count))}
        events.append({"before": before, "after": live[name], "op": "c" if before is None else "u"})
    return events


def _click(rng: random.Random, i: int, keys: int) -> Row:
    at = max(0, i - 3 * rng.random())
    return {"id": i, "user_id": rng.randrange(keys), "page": rng.choice("xyz"), "n": rng.randrange(10), "at": _time(at)}


def _torn(rng: random.Random, i: int, click: Row) -> Row:
    wrong: list[Row] = [{"n": "many"}, {"page": None}, {"at": _time(max(0, i - 30))}]
    return {**click, **(rng.choice(wrong) if rng.random() < 0.3 else {})}


def _payment(rng: random.Random, i: int, rows: int) -> Row:
    click = min(rows - 1, 2 * i + rng.randrange(3))
    currency = rng.choice(["EUR", "USD", "JPY", "XXX"])
    return {
        "id": i,
        "click": click,
        "currency": currency,
        "amount": rng.randrange(100),
        "at": _time(click + rng.random()),
    }
