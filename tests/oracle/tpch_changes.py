"""Random changes to the tables of TPC-H, given to the engine and to DuckDB alike.

New and changed rows are made of the values that their columns already have (so that joins and filters find them), of
values that the queries ask for, and of NULLs.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from sqlengine import TableEnvironment

__all__ = ["TABLES", "Shop"]

TABLES = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
_CHANGES = {
    "region": 1,
    "nation": 2,
    "supplier": 5,
    "customer": 20,
    "part": 25,
    "partsupp": 40,
    "orders": 60,
    "lineitem": 200,
}

# What the queries ask for; rare in the data, so that without these most changes would touch no answer.
_WANTED: dict[str, list[Any]] = {
    "r_name": ["EUROPE", "ASIA", "AMERICA"],
    "n_name": ["GERMANY", "FRANCE", "BRAZIL", "CANADA", "SAUDI ARABIA"],
    "s_comment": ["Customer had Complaints", "fine"],
    "c_mktsegment": ["BUILDING"],
    "c_acctbal": [Decimal("0.00"), Decimal("9999.99"), Decimal("-999.99")],
    "c_phone": ["13-000", "31-000", "99-000", ""],
    "p_brand": ["Brand#23", "Brand#12", "Brand#45"],
    "p_container": ["MED BOX", "SM CASE", "LG PKG"],
    "p_type": ["ECONOMY ANODIZED STEEL", "PROMO BRUSHED STEEL", "LARGE BRASS", "MEDIUM POLISHED TIN"],
    "p_name": ["forest green", "green", "forest"],
    "p_size": [15, 49, 3],
    "ps_availqty": [0, 1, 9999],
    "o_orderstatus": ["F"],
    "o_comment": ["special requests", "plain"],
    "o_orderdate": [
        dt.date(1993, 7, 1),
        dt.date(1993, 10, 1),
        dt.date(1995, 3, 14),
        dt.date(1994, 1, 1),
        dt.date(1996, 12, 31),
    ],
    "l_quantity": [Decimal("1.00"), Decimal("0.00"), Decimal("301.00"), Decimal("23.99")],
    "l_discount": [Decimal("0.05"), Decimal("0.06"), Decimal("0.07")],
    "l_shipdate": [
        dt.date(1994, 1, 1),
        dt.date(1995, 9, 1),
        dt.date(1996, 1, 1),
        dt.date(1995, 3, 16),
        dt.date(1998, 9, 2),
    ],
    "l_receiptdate": [dt.date(1994, 1, 1), dt.date(1998, 12, 31)],
    "l_shipmode": ["AIR", "MAIL"],
    "l_shipinstruct": ["DELIVER IN PERSON"],
    "l_returnflag": ["R"],
}

_STATEMENTS = (
    "UPDATE lineitem SET l_discount = l_discount + 0.01, l_returnflag = 'R' WHERE l_orderkey % 211 = {n}",
    "UPDATE orders SET o_orderdate = DATE '1994-02-03' WHERE o_orderkey % 173 = {n}",
    "UPDATE part SET p_brand = 'Brand#23', p_container = 'MED BOX' WHERE p_partkey % 97 = {n}",
    "UPDATE partsupp SET ps_supplycost = NULL WHERE ps_partkey % 301 = {n}",
    "UPDATE supplier SET s_nationkey = 7 WHERE s_suppkey % 23 = {n}",
    "UPDATE customer SET c_acctbal = -c_acctbal WHERE c_custkey % 53 = {n}",
    "DELETE FROM lineitem WHERE l_suppkey % 83 = {n} AND l_linenumber > 3",
    "DELETE FROM orders WHERE o_custkey % 71 = {n}",
    "DELETE FROM partsupp WHERE ps_suppkey % 91 = {n}",
    "DELETE FROM nation WHERE n_nationkey = {n}",
)


@dataclass
class Shop:
    """The same eight tables in the engine and in DuckDB. Args: `chance` decides all changes."""

    environment: TableEnvironment
    duck: duckdb.DuckDBPyConnection
    chance: np.random.Generator

    def change(self) -> list[str]:
        """One epoch of changes to some of the tables, from rows and from statements; tells what was done."""
        done: list[str] = []
        self.environment.execute_sql("BEGIN EPOCH")
        for name in TABLES:
            if self.chance.random() < 0.7:
                done.append(self._change_table(name))
        for _ in range(int(self.chance.integers(0, 3))):
            statement = self.chance.choice(_STATEMENTS).format(n=int(self.chance.integers(0, 20)))
            self.environment.execute_sql(statement)
            self.duck.execute(statement)
            done.append(statement)
        self.environment.execute_sql("END EPOCH")
        return done

    def empty(self, name: str) -> None:
        """Take all rows out of a table."""
        self.environment.execute_sql(f"DELETE FROM {name}")
        self.duck.execute(f"DELETE FROM {name}")

    def refill(self, name: str, rows: pa.Table) -> None:
        """Put rows into a table."""
        self._apply(name, rows.slice(0, 0), rows)

    def _change_table(self, name: str) -> str:
        rows = self.duck.sql(f"SELECT * FROM {name}").to_arrow_table()
        count = int(self.chance.integers(1, _CHANGES[name] + 1))
        if rows.num_rows == 0:
            return f"{name} is empty"
        touched = self.chance.permutation(rows.num_rows)[: 2 * count]
        deleted, updated = rows.take(touched[:count]), self._altered(rows.take(touched[count:]), rows, TABLES[name])
        templates = rows.take(self.chance.integers(0, rows.num_rows, count))
        inserted = self._rekeyed(self._altered(templates, rows, TABLES[name]), TABLES[name])
        self._apply(name, deleted, _last_of_each_key(pa.concat_tables([updated, inserted]), TABLES[name]))
        return f"{name}: {deleted.num_rows} deleted, {updated.num_rows} updated, {inserted.num_rows} inserted"

    def _apply(self, name: str, deleted: pa.Table, upserted: pa.Table) -> None:
        keys = " AND ".join(f"{name}.{k} = gone.{k}" for k in TABLES[name])
        for part in (deleted, upserted):
            self.duck.register("gone", part)
            self.duck.execute(f"DELETE FROM {name} USING gone WHERE {keys}")
            self.duck.unregister("gone")
        self.duck.register("come", upserted)
        self.duck.execute(f"INSERT INTO {name} SELECT * FROM come")
        self.duck.unregister("come")
        session = self.environment.session
        table = session.catalogs.get((name,), None)
        contents = session.memory_table(table)
        both = pa.concat_tables([deleted, upserted])
        kinds = np.r_[np.full(deleted.num_rows, 3), np.full(upserted.num_rows, 0)].astype(np.int8)
        columns = [both.column(f.name).combine_chunks().cast(f.type.arrow) for f in contents.schema]
        session.to_write(table).apply(ChangelogBatch.of(columns, contents.schema, kinds))
        session.publish([contents])

    def _altered(self, rows: pa.Table, domain: pa.Table, keys: tuple[str, ...]) -> pa.Table:
        """Some columns of the rows get other values of their domain. Names stay: they break ties of ORDER BY."""
        for i, field in enumerate(domain.schema):
            if field.name in keys or field.name == "s_name" or self.chance.random() < 0.5 or rows.num_rows == 0:
                continue
            values = domain.column(field.name).take(self.chance.integers(0, domain.num_rows, rows.num_rows)).to_pylist()
            wanted = _WANTED.get(field.name, [])
            old = rows.column(field.name).to_pylist()
            which = self.chance.random(len(values))
            new = [
                o if w < 0.4 else None if w > 0.95 else wanted[int(w * 1e6) % len(wanted)] if wanted and w > 0.7 else v
                for o, v, w in zip(old, values, which, strict=True)
            ]
            rows = rows.set_column(i, field, pa.array(new, field.type))
        return rows

    def _rekeyed(self, rows: pa.Table, keys: tuple[str, ...]) -> pa.Table:
        """New keys: for a key of one column beyond the present ones, for two columns another second part (an existing
        row may be hit)."""
        last = keys[-1]
        i = rows.schema.get_field_index(last)
        old = rows.column(last).to_numpy()
        if len(keys) == 1:
            fresh = np.arange(len(old)) + int(self.chance.integers(1_000_000, 2_000_000_000))
        else:
            fresh = 1 + self.chance.integers(0, 100, len(old))
        rows = rows.set_column(
            i, rows.schema.field(i), pa.array(fresh.astype(np.int64)).cast(rows.schema.field(i).type)
        )
        if "s_name" in rows.column_names:
            names = pa.array([f"Supplier#{k}" for k in fresh])
            rows = rows.set_column(
                rows.schema.get_field_index("s_name"), "s_name", names.cast(rows.schema.field("s_name").type)
            )
        return rows


def _last_of_each_key(rows: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    places = {key: i for i, key in enumerate(zip(*(rows.column(k).to_pylist() for k in keys), strict=True))}
    return rows.take(sorted(places.values()))
