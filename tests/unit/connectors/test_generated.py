"""Generated tables: Nexmark, datagen, values, and tables that are looked up."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import REGISTRY, Context, changes_of, request, rows_of, source, split_of

from connectors.datagen.table import DatagenReader, DatagenSource
from connectors.lookup.table import JsonlLookup
from connectors.nexmark.generator import EventTimes, Nexmark
from connectors.nexmark.table import NexmarkReader, NexmarkSource
from runtime.core.errors import FormatError, OptionError, SqlEngineError
from runtime.core.schema import Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIME,
    TINYINT,
    DataType,
    array,
    decimal,
    map_of,
    row,
    timestamp,
)

TS = timestamp(3)
PERSON = (
    ("id", BIGINT),
    ("name", STRING),
    ("emailAddress", STRING),
    ("creditCard", STRING),
    ("city", STRING),
    ("state", STRING),
    ("dateTime", TS),
    ("extra", STRING),
)
AUCTION = (
    ("id", BIGINT),
    ("itemName", STRING),
    ("description", STRING),
    ("initialBid", BIGINT),
    ("reserve", BIGINT),
    ("dateTime", TS),
    ("expires", TS),
    ("seller", BIGINT),
    ("category", BIGINT),
    ("extra", STRING),
)
BID = (
    ("auction", BIGINT),
    ("bidder", BIGINT),
    ("price", BIGINT),
    ("channel", STRING),
    ("url", STRING),
    ("dateTime", TS),
    ("extra", STRING),
)
KINDS = {"person": PERSON, "auction": AUCTION, "bid": BID}
ALL = Schema.of(("event_type", INT), *((name, row(*fields)) for name, fields in KINDS.items()))


def events(**options: str) -> list[tuple[Any, ...]]:
    return rows_of(
        source("nexmark", ALL, {"events.num": "3000", **{k.replace("_", "-"): v for k, v in options.items()}})
    )


def test_flat_tables_are_the_events() -> None:
    whole = events()
    for number, (kind, fields) in enumerate(KINDS.items()):
        flat = rows_of(source("nexmark", Schema.of(*fields), {"events.num": "3000", "nexmark.table": kind}))
        assert flat == [tuple(e[number + 1].values()) for e in whole if e[0] == number]
        assert all(e[number + 1] is None for e in whole if e[0] != number)


def test_shape_of_the_events() -> None:
    whole = events()
    kinds = [e[0] for e in whole]
    assert kinds[:50] == [0, 1, 1, 1] + [2] * 46
    assert kinds == kinds[:50] * 60
    assert [e[1]["id"] for e in whole if e[0] == 0] == list(range(1000, 1060))
    assert [e[2]["id"] for e in whole if e[0] == 1] == list(range(1000, 1180))
    times = [e[e[0] + 1]["dateTime"] for e in whole]
    assert times == sorted(times)
    assert (times[-1] - times[0]).total_seconds() == pytest.approx(0.2999, abs=0.001)
    assert events() == whole
    assert events(seed="1") != whole


def test_bids_refer_to_what_there_is() -> None:
    """Hot auctions get about half of the bids; the others go to the last hundred auctions or the next ten."""
    generator = Nexmark(0, EventTimes(0, (10_000,), 600))
    rows = np.arange(200_000)
    numbers = generator.events_of(2, rows)
    bids = generator.columns(2, numbers, ["auction", "bidder", "price"])
    last = generator._last_auction(numbers)
    auction = bids["auction"].to_numpy() - 1000
    assert ((auction >= last // 100 * 100) | (auction >= last - 100)).all()
    assert (auction <= last + 10).all()
    hot = (auction == last // 100 * 100).mean()
    assert 0.5 < hot < 0.52
    bidder = bids["bidder"].to_numpy() - 1000
    assert 0.75 < (bidder == generator._last_person(numbers) // 100 * 100 + 1).mean() < 0.76
    assert (bidder <= generator._last_person(numbers) + 10).all()
    price = bids["price"].to_numpy()
    assert price.min() >= 100
    assert price.max() <= 100_000_000
    assert np.median(price) == pytest.approx(100_000, rel=0.1)


@pytest.mark.parametrize("proportions", [(1, 3, 46), (2, 1, 3), (1, 1, 1)])
def test_counting_events_of_a_kind(proportions: tuple[int, int, int]) -> None:
    generator = Nexmark(0, EventTimes(0, (10,), 600), proportions)
    kinds = generator.kinds(np.arange(157))
    for kind in range(3):
        expected = np.flatnonzero(kinds == kind)
        assert [generator.count(kind, n) for n in range(158)] == [int((kinds[:n] == kind).sum()) for n in range(158)]
        assert generator.events_of(kind, np.arange(len(expected))).tolist() == expected.tolist()


def test_rates() -> None:
    steady = EventTimes(1000, (4, 4), 10)
    assert steady.of(np.arange(5)).tolist() == [1000, 1250, 1500, 1750, 2000]
    changing = EventTimes(0, (2, 1), 3)
    assert changing.of(np.arange(12)).tolist() == [0, 500, 1000, 1500, 2000, 2500, 3000, 4000, 5000, 6000, 6500, 7000]


def test_events_at_their_rate() -> None:
    now = 0.0
    table = source(
        "nexmark",
        Schema.of(*BID),
        {"nexmark.table": "bid", "rate.limited": "true", "first-event.rate": "50", "next-event.rate": "50"},
    )
    assert isinstance(table, NexmarkSource)
    assert not table.bounded
    reader = NexmarkReader(table, lambda: now)
    counts = []
    for now in (5.0, 5.0, 5.5, 6.0, 8.0):  # noqa: B007
        counts.append(len(reader.poll(1000) or []))
    assert counts == [1, 0, 25, 21, 92]


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (Schema.of(("a", INT)), {}),
        (Schema.of(("auktion", BIGINT)), {"nexmark.table": "bid"}),
        (Schema.of(("channel", INT)), {"nexmark.table": "bid"}),
        (Schema.of(("bid", row(("zz", INT)))), {}),
        (Schema.of(*BID), {"nexmark.table": "bids"}),
        (Schema.of(*BID), {"nexmark.table": "bid", "first-event.rate": "0"}),
        (Schema.of(*BID), {"nexmark.table": "bid", "base-time": "soon"}),
    ],
    ids=str,
)
def test_wrong_nexmark_tables(schema: Schema, options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        source("nexmark", schema, options)


# --- datagen
# ----------------------------------------------------------------------------------------------------------------------

EVERYTHING = Schema.of(
    ("seq", INT),
    ("t", TINYINT),
    ("l", BIGINT),
    ("d", DOUBLE),
    ("e", decimal(10, 2)),
    ("b", BOOLEAN),
    ("s", STRING),
    ("by", BYTES),
    ("dt", DATE),
    ("tm", TIME),
    ("ts", TS),
    ("a", array(INT)),
    ("m", map_of(STRING, INT)),
    ("r", row(("x", INT), ("y", STRING))),
)


def test_every_type_within_its_bounds() -> None:
    options = {
        "number-of-rows": "1000",
        "seed": "7",
        "fields.seq.kind": "sequence",
        "fields.seq.start": "5",
        "fields.seq.end": "100000",
        "fields.t.min": "-3",
        "fields.t.max": "3",
        "fields.d.min": "1",
        "fields.d.max": "2",
        "fields.e.min": "0.5",
        "fields.e.max": "0.75",
        "fields.s.length": "9",
        "fields.by.length": "3",
        "fields.by.var-len": "true",
        "fields.a.length": "2",
        "fields.a.element.min": "1",
        "fields.a.element.max": "1",
        "fields.m.key.length": "1",
        "fields.r.x.null-rate": "0.5",
        "fields.ts.max-past": "1 min",
    }
    rows = rows_of(source("datagen", EVERYTHING, options))
    columns = dict(zip(EVERYTHING.names, zip(*rows, strict=True), strict=True))
    assert columns["seq"] == tuple(range(5, 1005))
    assert set(columns["t"]) == set(range(-3, 4))
    assert len(set(columns["l"])) == 1000
    assert min(columns["l"]) < -(2**60) < 2**60 < max(columns["l"])
    assert all(1 <= v < 2 for v in columns["d"])
    assert {str(v) for v in columns["e"]} == {f"0.{v}" for v in range(50, 76)}
    assert set(columns["b"]) == {True, False}
    assert all(len(v) == 9 and set(v) <= set("0123456789abcdef") for v in columns["s"])
    assert {len(v) for v in columns["by"]} == {1, 2, 3}
    assert set(map(tuple, columns["a"])) == {(1, 1)}
    assert all(len({k for k, _ in m}) == len(m) <= 3 for m in columns["m"])
    assert 400 < sum(r["x"] is None for r in columns["r"]) < 600
    assert rows_of(source("datagen", EVERYTHING, {**options, "seed": "8"})) != rows


def test_datagen_ends_with_its_shortest_sequence() -> None:
    options = {"fields.a.kind": "sequence", "fields.a.start": "1", "fields.a.end": "4", "number-of-rows": "9"}
    table = source("datagen", Schema.of(("a", STRING), ("b", INT)), options)
    assert [row[0] for row in rows_of(table)] == ["1", "2", "3", "4"]
    assert table.statistics().rows == 4


def test_rows_per_second() -> None:
    table = source("datagen", Schema.of(("a", INT)), {"rows-per-second": "10"})
    assert isinstance(table, DatagenSource)
    assert not table.bounded
    now = 100.0
    reader = DatagenReader(table, lambda: now)
    counts = []
    for now in (100.0, 100.05, 100.25, 100.5, 101.0, 101.0):  # noqa: B007
        counts.append(len(reader.poll(100) or []))
    assert counts == [0, 0, 2, 3, 5, 0]
    assert not reader.finished


def test_a_fast_rate_pauses() -> None:
    """Whoever takes rows until there are none comes to an end, though more rows come while the last ones are made."""
    table = source("datagen", Schema.of(("a", INT)), {"rows-per-second": "100000"})
    ticks = itertools.count()
    reader = DatagenReader(table, lambda: next(ticks) / 1000)
    counts = [len(reader.poll(1_000_000) or []) for _ in range(25)]
    assert counts == [0, 100, *[0] * 9, 1000, *[0] * 9, 1000, 0, 0, 0]


def test_random_rows_go_on_when_resumed() -> None:
    table = source("datagen", Schema.of(("a", BIGINT)), {"number-of-rows": "10"})
    reader = table.open(split_of(table), Context())
    first = reader.poll(4)
    position = json.loads(json.dumps(reader.position()))
    rest = reader.poll(10)
    resumed = table.open(split_of(table), Context())
    resumed.seek(position)
    again = resumed.poll(10)
    assert first is not None and rest is not None and again is not None
    assert changes_of(again) == changes_of(rest)


@pytest.mark.parametrize(
    "options",
    [
        {"fields.b.min": "1"},
        {"fields.a.mim": "1"},
        {"fields.a.kind": "sequence"},
        {"fields.a.kind": "other"},
        {"fields.a.min": "x"},
        {"fields.a.max": "3000000000"},
        {"fields.a.min": "5", "fields.a.max": "4"},
        {"fields.a.null-rate": "2"},
        {"number-of-rows": "x"},
        {"rows-per-second": "0"},
    ],
    ids=str,
)
def test_wrong_datagen_options(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        source("datagen", Schema.of(("a", INT)), options)


# --- values and look-ups
# ----------------------------------------------------------------------------------------------------------


def test_values() -> None:
    schema = Schema.of(("a", INT), ("b", STRING))
    assert rows_of(source("values", schema, {"data": '[{"a": 1},\n {"b": "x"}]'})) == [(1, None), (None, "x")]
    assert rows_of(source("values", schema, {})) == []
    assert not source("values", schema, {"bounded": "false"}).bounded
    with pytest.raises(FormatError, match="line 2"):
        source("values", schema, {"data": '{"a": 1}\n{"a": "x"}'})
    with pytest.raises(FormatError, match="unknown 'op'"):
        source("values", schema, {"data": '{"a": 1, "op": "+X"}', "changelog-mode": "upsert"})


def lookup(path: Path, *columns: tuple[str, DataType]) -> JsonlLookup:
    make = REGISTRY.connectors.get("lookup-jsonl").lookup
    assert make is not None
    table = make(request(Schema.of(*columns), {"path": str(path), "format": "json"}))
    assert isinstance(table, JsonlLookup)
    return table


def test_lookup_by_any_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"k": None if k == 3 else int(k), "s": f"s{s}", "n": i} for i, (k, s) in enumerate(rng.integers(0, 6, (60, 2)))
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in rows))
    table = lookup(path, ("k", INT), ("s", STRING), ("n", INT))
    keys = list(itertools.product([5, 0, None, 77], ["s1", "s5", None]))
    for names in (["k"], ["s"], ["s", "k"]):
        asked = [tuple(key["ks".index(n)] for n in names) for key in keys]
        types = {"k": pa.int32(), "s": pa.string()}
        batch = pa.RecordBatch.from_arrays(
            [pa.array([a[i] for a in asked], types[n]) for i, n in enumerate(names)], names=names
        )
        positions, found = table.lookup(names, batch)
        expected = [
            (p, r["n"])
            for p, key in enumerate(asked)
            for r in rows
            if None not in key and key == tuple(r[n] for n in names)
        ]
        assert list(zip(positions.to_pylist(), found.column("n").to_pylist(), strict=True)) == expected
    assert table.lookup(["k"], pa.record_batch({"k": pa.array([], pa.int32())}))[0].to_pylist() == []


def test_lookup_sees_a_changed_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"k": 1}\n')
    table = lookup(path, ("k", INT))
    keys = pa.record_batch({"k": pa.array([1, 2], pa.int32())})
    assert table.lookup(["k"], keys)[0].to_pylist() == [0]
    path.write_text('{"k": 1}\n{"k": 2}\n')
    assert table.lookup(["k"], keys)[0].to_pylist() == [0, 1]
    path.unlink()
    with pytest.raises(SqlEngineError, match="E3104"):
        table.lookup(["k"], keys)


# --- options that all share
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connector", "options", "message"),
    [
        ("filesystem", {"format": "json"}, "E1504 connector 'filesystem' needs the option 'path'"),
        ("filesystem", {"path": "x"}, "E1504 connector 'filesystem' needs the option 'format'"),
        ("filesystem", {"path": "x", "format": "jsom"}, "E1502 unknown format 'jsom'; did you mean \"json\""),
        (
            "filesystem",
            {"path": "x", "format": "json", "pth": "y"},
            "E1503 unknown option 'pth' .* did you mean \"path\"",
        ),
        (
            "filesystem",
            {"path": "x", "format": "json", "json.ignore-parse-error": "true"},
            'did you mean "json.ignore-parse-errors"',
        ),
        ("filesystem", {"path": "x", "format": "json", "csv.header": "true"}, "E1503 unknown option 'csv.header'"),
        (
            "filesystem",
            {"path": "x", "format": "json", "json.ignore-parse-errors": "maybe"},
            "option 'json.ignore-parse-errors' cannot be 'maybe'",
        ),
        ("memory", {}, "E1506 .* leave the option 'connector' out"),
    ],
)
def test_messages_about_options(connector: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        source(connector, Schema.of(("a", INT)), options)


def test_every_connector_and_format_is_described() -> None:
    for shelf in (REGISTRY.connectors, REGISTRY.formats):
        for name in shelf.names():
            assert shelf.get(name).document
