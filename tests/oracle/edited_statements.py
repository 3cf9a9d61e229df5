"""Statements that are edited at random while they run: which edits there are, and how one version after another goes on
from what the one before has saved."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runtime.core.clock import VirtualClock
from runtime.local.job import Job
from sqlengine import TableEnvironment

__all__ = ["QUERIES", "Insert", "Program", "Stopped", "edited", "environment", "folded", "program", "write_input"]

SHOPS = ["ann", "bob", "cat", "dan", "eve"]
TABLES = ["t0", "t1", "t2", "added"]
ROWS = 200
EPOCH_ROWS = 20


class Stopped(Exception):
    """The process is gone, as far as the job can tell."""


@dataclass(frozen=True)
class Source:
    """The declaration of the table `orders`, over the same files whatever it says."""

    types: tuple[tuple[str, str], ...] = (
        ("id", "BIGINT"),
        ("shop", "VARCHAR(10)"),
        ("amount", "INT"),
        ("price", "DECIMAL(6, 2)"),
        ("weight", "FLOAT"),
        ("at", "TIMESTAMP(3)"),
    )
    delay: int = 3
    options: tuple[tuple[str, str], ...] = ()
    text: str = "json"

    def sql(self, folder: Path) -> str:
        columns = "".join(f"`{name}` {type_}, " for name, type_ in self.types)
        options = "".join(f", '{key}' = '{value}'" for key, value in self.options)
        return (
            f"CREATE TABLE orders ({columns} WATERMARK FOR `at` AS `at` - INTERVAL '{self.delay}' SECOND) "
            f"WITH ('connector' = 'filesystem', 'path' = '{folder}/orders', 'format' = '{self.text}'{options});"
        )


@dataclass(frozen=True)
class Insert:
    """An INSERT into a table of its own: what it computes, and what may be edited in it."""

    into: str
    kind: str
    where: str = ""
    extra: str = "CAST(NULL AS BIGINT)"
    alias: str = "x"
    size: int = 10
    amount: str = "amount"
    hint: str = ""
    place: str = "out"
    wide: bool = False

    def sql(self) -> str:
        x = self.alias
        rows = f"(SELECT id AS {x}1, shop AS {x}2, {self.amount} AS {x}3, `at` AS {x}4 FROM orders {self.where}) AS {x}"
        return f"INSERT INTO {self.into} {QUERIES[self.kind](self, rows, f'{x}2', f'{x}1', f'{x}3', f'{x}4')};"

    def declaration(self, folder: Path) -> str:
        value = "DECIMAL(38, 6)" if self.wide else "DECIMAL(30, 6)"
        return (
            f"CREATE TABLE {self.into} (k STRING, a {value}, b {value}) WITH ('connector' = 'filesystem', "
            f"'path' = '{folder}/{self.place}/{self.into}', 'format' = 'debezium-json');"
        )


Query = Callable[[Insert, str, str, str, str, str], str]


def _window(name: str) -> Query:
    extents = {"TUMBLE": "INTERVAL '{0}' SECOND", "HOP": "INTERVAL '5' SECOND, INTERVAL '{0}' SECOND"}
    extents["CUMULATE"] = extents["HOP"]
    extents["SESSION"] = "INTERVAL '{0}' SECOND"

    def query(i: Insert, rows: str, k: str, n: str, v: str, t: str) -> str:
        size = extents[name].format(3 if name == "SESSION" and i.size == 10 else i.size)
        partition = f" PARTITION BY {k}" if name == "SESSION" else ""
        inside = f"TABLE w_{i.into}{partition}, DESCRIPTOR({t}), {size}"
        return (
            f"WITH w_{i.into} AS (SELECT * FROM {rows}) SELECT {k} || CAST(window_start AS STRING), SUM({v}), {i.extra} "
            f"FROM TABLE({name}({inside})) GROUP BY {k}, window_start, window_end"
        )

    return query


def _ranked(i: Insert, rows: str, k: str, n: str, v: str, t: str) -> str:
    ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {k} ORDER BY {v} DESC, {n}) AS n FROM {rows}"
    return f"SELECT {k}, {n}, {v} FROM ({ranked}) WHERE n <= {i.size // 5}"


def _last(i: Insert, rows: str, k: str, n: str, v: str, t: str) -> str:
    ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {k} ORDER BY {t} DESC) AS n FROM {rows}"
    return f"SELECT {k}, {n}, {v} FROM ({ranked}) WHERE n = 1"


QUERIES: dict[str, Query] = {
    "aggregate": lambda i, rows, k, n, v, t: (
        f"SELECT {i.hint.format(i.alias)} {k}, SUM({v}), {i.extra} FROM {rows} GROUP BY {k}"
    ),
    "extremes": lambda i, rows, k, n, v, t: f"SELECT {k}, MAX({v}), MIN({v}) FROM {rows} GROUP BY {k}",
    "counts": lambda i, rows, k, n, v, t: f"SELECT {k}, COUNT({v}), COUNT(DISTINCT {v}) FROM {rows} GROUP BY {k}",
    "two levels": lambda i, rows, k, n, v, t: (
        f"SELECT 'all', m, COUNT(*) FROM (SELECT {k}, MAX({v}) AS m FROM {rows} GROUP BY {k}) GROUP BY m"
    ),
    "average": lambda i, rows, k, n, v, t: f"SELECT {k}, AVG({v}), {i.extra} FROM {rows} GROUP BY {k}",
    "join": lambda i, rows, k, n, v, t: f"SELECT town, {n}, rent FROM {rows} JOIN shops ON {k} = shop",
    "outer": lambda i, rows, k, n, v, t: f"SELECT {k}, {v}, rent FROM {rows} LEFT JOIN shops ON {k} = shop",
    "exists": lambda i, rows, k, n, v, t: (
        f"SELECT {k}, {n}, {v} FROM {rows} WHERE {k} IN (SELECT shop FROM shops WHERE rent > 3)"
    ),
    "top": _ranked,
    "last": _last,
    "first": lambda i, rows, k, n, v, t: f"SELECT DISTINCT {k}, {v}, {v} + 1 FROM {rows}",
    "over": lambda i, rows, k, n, v, t: (
        f"SELECT {k}, {n}, SUM({v}) OVER (PARTITION BY {k} ORDER BY {t} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM {rows}"
    ),
    "except": lambda i, rows, k, n, v, t: (
        f"SELECT {k}, {v}, {v} FROM {rows} WHERE {n} < 150 EXCEPT SELECT shop, rent, rent FROM shops"
    ),
    "interval": lambda i, rows, k, n, v, t: (
        f"SELECT {k}, {v}, o.id FROM {rows} JOIN orders AS o ON {k} = o.shop AND {t} = o.`at` AND o.id > 30"
    ),
    "tumble": _window("TUMBLE"),
    "hop": _window("HOP"),
    "cumulate": _window("CUMULATE"),
    "session": _window("SESSION"),
    "shops": lambda i, rows, k, n, v, t: "SELECT town, COUNT(*), SUM(rent) FROM shops GROUP BY town",
    "global": lambda i, rows, k, n, v, t: f"SELECT 'all', SUM({v}), {i.extra} FROM {rows}",
    "plain": lambda i, rows, k, n, v, t: f"SELECT {k}, {n}, {v} FROM {rows}",
    "union": lambda i, rows, k, n, v, t: (
        f"SELECT {k}, {n}, {v} FROM {rows} UNION ALL SELECT town, rent, rent FROM shops"
    ),
}
FILTERS = ["", "WHERE amount > 20", "WHERE amount <> 50", "WHERE shop <> 'bob'", "WHERE id < 90"]
EXTRAS = ["CAST(NULL AS BIGINT)", "MAX({}3)", "COUNT(DISTINCT {}1)", "COUNT(*)", "MIN({}1)"]
VALUES = ["amount", "amount", "amount", "price", "weight", "id", "amount + 1", "CAST(amount AS BIGINT)"]
HINTS = ["", "/*+ STATE_TTL('{}' = '1 h') */", "/*+ STATE_TTL('{}' = '2 h') */"]
WIDER = {"INT": "BIGINT", "VARCHAR(10)": "VARCHAR(20)", "DECIMAL(6, 2)": "DECIMAL(9, 2)", "FLOAT": "DOUBLE"}


@dataclass(frozen=True)
class Program:
    """What is run: a statement set over a table, and how the session is set."""

    inserts: tuple[Insert, ...]
    source: Source = Source()
    ttl: str = "0 s"
    zone: str = "UTC"

    def sql(self) -> str:
        return "EXECUTE STATEMENT SET BEGIN\n" + "\n".join(i.sql() for i in self.inserts) + "\nEND"

    def tables(self, source: Path, folder: Path) -> str:
        shops = (
            "CREATE TABLE shops (shop STRING, town STRING, rent BIGINT) "
            f"WITH ('connector' = 'filesystem', 'path' = '{source}/shops.json', 'format' = 'json');"
        )
        return self.source.sql(source) + shops + "".join(i.declaration(folder) for i in self.inserts)


def program(rng: random.Random) -> Program:
    """A few INSERTs."""
    chosen = rng.sample(list(QUERIES), rng.choice([1, 1, 2, 3]))
    source = Source(text=rng.choice(["json", "json", "csv"]))
    if rng.random() < 0.2:
        source = replace(source, types=tuple((n, t + " NOT NULL" if n == "amount" else t) for n, t in source.types))
    return Program(tuple(_insert(rng, f"t{n}", kind) for n, kind in enumerate(chosen)), source)


def _insert(rng: random.Random, into: str, kind: str) -> Insert:
    extra = rng.choice(EXTRAS).format("x")
    return Insert(into, kind, rng.choice(FILTERS), extra, amount=rng.choice(VALUES), hint=rng.choice(HINTS))


EDITS = {
    "insert": ["filter", "aggregate", "names", "value", "size", "hint", "kind", "place", "sink type"],
    "set": ["add", "remove", "order", "swap"],
    "source": ["note", "nulls", "wider", "wider", "reordered", "delay", "errors", "in order"],
    "session": ["ttl", "zone"],
}


def edited(given: Program, rng: random.Random) -> tuple[str, Program]:
    """What was edited, and the program then; it may be the same."""
    edit = rng.choice(EDITS[rng.choice(["insert", "insert", "source", "source", "set", "session"])])
    if edit in EDITS["insert"]:
        inserts = list(given.inserts)
        at = rng.randrange(len(inserts))
        inserts[at] = _edited_insert(inserts[at], edit, rng)
        return edit, replace(given, inserts=tuple(inserts))
    if edit in EDITS["set"]:
        return edit, replace(given, inserts=_edited_set(given.inserts, edit, rng))
    if edit in EDITS["source"]:
        return edit, replace(given, source=_edited_source(given.source, edit, rng))
    if edit == "ttl":
        return edit, replace(given, ttl=rng.choice(["0 s", "1 h", "2 h"]))
    return edit, replace(given, zone=rng.choice(["UTC", "Europe/Rome"]))


def _edited_insert(insert: Insert, edit: str, rng: random.Random) -> Insert:
    match edit:
        case "filter":
            return replace(insert, where=rng.choice(FILTERS))
        case "aggregate":
            return replace(insert, extra=rng.choice(EXTRAS).format(insert.alias))
        case "names":
            return replace(insert, alias="y", extra=insert.extra.replace("x", "y"))
        case "value":
            return replace(insert, amount=rng.choice(VALUES))
        case "size":
            return replace(insert, size=rng.choice([10, 15, 20]))
        case "hint":
            return replace(insert, hint=rng.choice(HINTS))
        case "kind":
            return replace(insert, kind=rng.choice(list(QUERIES)))
        case "place":
            return replace(insert, place=rng.choice(["out", "moved"]))
        case _:
            return replace(insert, wide=True)


def _edited_set(inserts: tuple[Insert, ...], edit: str, rng: random.Random) -> tuple[Insert, ...]:
    at = rng.randrange(len(inserts))
    free = [t for t in TABLES if t not in {i.into for i in inserts}]
    if edit == "add" and free:
        return (*inserts[:at], _insert(rng, free[0], rng.choice(list(QUERIES))), *inserts[at:])
    if edit == "swap" and len(inserts) > 1:
        one, two = rng.sample(range(len(inserts)), 2)
        targets = {one: inserts[two].into, two: inserts[one].into}
        return tuple(replace(i, into=targets.get(n, i.into)) for n, i in enumerate(inserts))
    if edit == "remove" and len(inserts) > 1:
        return (*inserts[:at], *inserts[at + 1 :])
    return tuple(rng.sample(inserts, len(inserts)))


def _edited_source(source: Source, edit: str, rng: random.Random) -> Source:
    match edit:
        case "note" if source.text == "json" and len(source.types) == 6:
            at = rng.randrange(7)
            return replace(source, types=(*source.types[:at], ("note", "STRING"), *source.types[at:]))
        case "nulls":
            types = tuple((n, t.removesuffix(" NOT NULL") if n == "amount" else t) for n, t in source.types)
            return replace(source, types=types)
        case "wider":
            name = rng.choice(["shop", "amount", "price", "weight"])
            types = tuple((n, WIDER.get(t, t) if n == name else t) for n, t in source.types)
            return replace(source, types=types)
        case "reordered" if source.text == "json":
            return replace(source, types=tuple(rng.sample(source.types, len(source.types))))
        case "delay":
            return replace(source, delay=rng.choice([3, 5]))
        case "errors":
            return replace(source, options=((f"{source.text}.ignore-parse-errors", "true"),))
        case "in order":
            return replace(source, options=(("scan.watermark.splits-in-order", "true"),))
        case _:
            return source


def write_input(folder: Path, rng: random.Random, text: str) -> None:
    """Two files of orders, in order of time, and one of shops. Some values fit only into the wider types: rows with
    them are left out or refused by the others."""
    (folder / "orders").mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "id": n,
            "shop": rng.choice(SHOPS),
            "amount": rng.randrange(100),
            "price": rng.randrange(1000) / 100,
            "weight": rng.randrange(100) / 10,
            "at": f"2024-01-01 00:00:{n // 4:02d}.000",
            **({"note": "x"} if n % 2 and text == "json" else {}),
        }
        for n in range(ROWS)
    ]
    for number, part in enumerate((rows[: ROWS // 2], rows[ROWS // 2 :])):
        lines = [json.dumps(row) if text == "json" else ",".join(map(str, row.values())) for row in part]
        (folder / "orders" / f"{number}.{text}").write_text("".join(line + "\n" for line in lines))
    shops = [{"shop": s, "town": rng.choice("XYZ"), "rent": rng.randrange(9)} for s in SHOPS * 20]
    (folder / "shops.json").write_text("".join(json.dumps(row) + "\n" for row in shops))


def environment(
    given: Program,
    source: Path,
    folder: Path,
    *,
    stop_after: int | None = None,
    savepoint: Path | None = None,
    options: dict[str, str] | None = None,
) -> TableEnvironment:
    """A session with the tables; its jobs save after every epoch, and are gone after `stop_after` of them, having
    written a savepoint if a path is given."""
    clock = VirtualClock(1)
    t_env = TableEnvironment.create(
        {
            "execution.checkpointing.dir": str(folder / "state"),
            "execution.checkpointing.interval": "1 ms",
            "sqlengine.epoch.max-rows": str(EPOCH_ROWS),
            "pipeline.name": "job",
            "table.exec.state.ttl": given.ttl,
            "table.local-time-zone": given.zone,
            **(options or {}),
        },
        clock=clock,
    )
    t_env.execute_script(given.tables(source, folder))

    def tick(job: Job) -> None:
        clock.advance_to(clock.now() + 10)
        if stop_after is not None and savepoint is not None and job.dataflow.epoch == stop_after - 1:
            job.savepoint(str(savepoint))
        if stop_after is not None and job.dataflow.epoch >= stop_after:
            raise Stopped

    def watch(job: Job) -> None:
        job.on_epoch = tick

    t_env.session.on_job = watch
    return t_env


def folded(folder: Path, given: Program) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of each table that the program writes, in all of its places: what its changes add up to."""
    found: dict[str, Counter[tuple[Any, ...]]] = {}
    for insert in given.inserts:
        rows = found.setdefault(insert.into, Counter())
        # A table that is elsewhere now has what was written before where it was.
        for file in sorted(folder.glob(f"*/{insert.into}/*")):
            if file.name.startswith((".", "_")):
                continue
            for line in file.read_text().splitlines():
                change = json.loads(line)
                sign, image = (-1, change["before"]) if change["op"] == "d" else (1, change["after"])
                rows[tuple(image.values())] += sign
    return {name: Counter({row: n for row, n in rows.items() if n}) for name, rows in found.items()}
