"""Rows on their way into a table of Spark: each commit once, whatever happens in between. Spark does not run here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import CheckpointError, SparkError, UnsupportedError
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, DataType, TypeRoot
from runtime.spark.staged_rows import StagedRows
from runtime.spark.table_sink import SparkTableSink, StagedFields, TableWriter, staged_fields
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn
from sqlengine.frames.table_text import create_table_text

SCHEMA = Schema((Field("id", BIGINT), Field("name", DataType(TypeRoot.VARCHAR, 3))))


class Broken(Exception):
    """The connection to Spark breaks."""


class Table:
    """A table that knows the commits which it has, as Delta does."""

    delivery = "exactly-once"

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.known: dict[str, int] = {}
        self.breaks = ""

    def commit(self, frame: list[int], run: str, number: int) -> None:
        if self.breaks == "before":
            raise Broken
        if self.known.get(run, 0) < number:
            self.rows += frame
            self.known[run] = number
        if self.breaks == "after":
            raise Broken


class Sink(SparkTableSink):
    """Reads the staged rows itself."""

    def frame(self, folder: str, names: Any) -> Any:
        staged = StagedRows(folder)
        return [row for name in names for row in staged.read(name).column("id").to_pylist()]


@pytest.fixture
def table() -> Table:
    return Table()


def writer(table: Table, folder: Path) -> TableWriter:
    fields = StagedFields({}, ())
    return Sink("t", SCHEMA, "`db`.`t`", None, table, fields, str(folder)).open_writer("job-1")  # type: ignore[arg-type]


def rows(*ids: int, name: str = "a") -> ChangelogBatch:
    return ChangelogBatch.of([pa.array(ids, pa.int64()), pa.array([name] * len(ids))], SCHEMA)


def prepared(of: TableWriter) -> Any:
    """As a checkpoint holds it."""
    return json.loads(json.dumps(of.prepare()))


def test_rows_are_there_when_their_checkpoint_is(table: Table, tmp_path: Path) -> None:
    job = writer(table, tmp_path)
    assert job.prepare() is None
    job.write(rows(1, 2))
    job.adopt(job.task_writer().write(rows(3)))
    first = prepared(job)
    job.write(rows(4))
    second = prepared(job)
    assert [c["number"] for c in second["commits"]] == [1, 2]
    assert table.rows == []
    for again in (first, first, second, second):
        job.publish(again)
    assert table.rows == [1, 2, 3, 4]
    assert prepared(job) is None
    assert StagedRows(str(next(tmp_path.iterdir()))).names() == []


@pytest.mark.parametrize("breaks", ["before", "after"])
def test_a_commit_that_was_cut_short_is_there_once(table: Table, tmp_path: Path, breaks: str) -> None:
    job = writer(table, tmp_path)
    job.write(rows(1))
    checkpoint = prepared(job)
    job.write(rows(2))
    job.prepare()
    table.breaks = breaks
    with pytest.raises(Broken):
        job.publish(checkpoint)
    table.breaks = ""
    for _ in range(2):
        # What was prepared behind the checkpoint comes again from the input.
        again = writer(table, tmp_path)
        again.recover([checkpoint])
        assert table.rows == [1]
    again.write(rows(2))
    again.publish(prepared(again))
    assert table.rows == [1, 2]


def test_a_new_run_of_the_same_statement_is_another_one(table: Table, tmp_path: Path) -> None:
    for _ in range(2):
        job = writer(table, tmp_path)
        job.write(rows(1))
        job.publish(prepared(job))
        job.close()
    assert table.rows == [1, 1]


def test_a_job_that_fails_leaves_nothing(table: Table, tmp_path: Path) -> None:
    job = writer(table, tmp_path)
    job.write(rows(1))
    known = prepared(job)
    job.adopt(job.task_writer().write(rows(2)))
    job.discard(known)
    assert prepared(job) is None
    assert StagedRows(str(next(tmp_path.iterdir()))).names() == []
    assert table.rows == []


def test_what_cannot_be_is_refused_before_a_checkpoint(table: Table, tmp_path: Path) -> None:
    job = writer(table, tmp_path)
    job.write(rows(1, name="abcd"))
    with pytest.raises(SparkError, match=r"E3611 .*VARCHAR\(3\), and a row has 4 characters"):
        job.prepare()


@pytest.mark.parametrize(
    "wrong",
    [
        {"commits": [{"run": "../x", "number": 1, "files": []}]},
        {"commits": [{"run": "x", "number": "1", "files": []}]},
        {"commits": [{"run": "x", "number": 1, "files": [1]}]},
        {"other": 1},
        [],
    ],
)
def test_a_checkpoint_that_names_something_else(table: Table, tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(CheckpointError, match="E3402"):
        writer(table, tmp_path).recover([wrong])


def test_damaged_and_foreign_files(table: Table, tmp_path: Path) -> None:
    job = writer(table, tmp_path)
    job.write(rows(1))
    checkpoint = prepared(job)
    staged = StagedRows(str(next(tmp_path.iterdir())))
    (name,) = staged.names()
    file = Path(staged.folder) / name
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match="SHA-256"):
        writer(table, tmp_path).recover([checkpoint])
    assert table.rows == []
    outside = "../../" + name
    with pytest.raises(CheckpointError, match="no file of rows"):
        staged.read(outside)
    with pytest.raises(ValueError, match="no file of rows"):
        staged.delete([outside])


def test_how_columns_travel() -> None:
    def column(name: str, kind: Any, **notes: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "nullable": True, "metadata": notes}

    found = staged_fields(
        {
            "fields": [
                column("i", "integer"),
                column("v`", "variant"),
                column("m", "interval year to month"),
                column("c", "string", __CHAR_VARCHAR_TYPE_STRING="char(4)"),
            ]
        }
    )
    assert [f["type"] for f in found.schema["fields"]] == ["integer", "string", "integer", "string"]
    assert found.expressions == (
        "`i`",
        "parse_json(`v```) AS `v```",
        "CAST(make_ym_interval(0, `m`) AS INTERVAL YEAR TO MONTH) AS `m`",
        "rpad(`c`, 4, ' ') AS `c`",
    )


def test_a_table_as_spark_declares_it() -> None:
    path = ObjectPath("spark", "db", "t")
    columns = (PhysicalColumn("i`d", BIGINT.not_null(), "it's"), PhysicalColumn("p", DataType(TypeRoot.CHAR, 2)))
    table = CatalogTable(path, columns, partitioned_by=("p",), options={"provider": "orc", "compression": "zlib"})
    assert create_table_text("`db`.`t`", table) == (
        "CREATE TABLE `db`.`t` (`i``d` BIGINT NOT NULL COMMENT 'it\\'s', `p` CHAR(2)) USING `orc` OPTIONS ('compression' = 'zlib')"
        " PARTITIONED BY (`p`)"
    )
    for wrong in ({"partitioned_by": ("i`d",)}, {"primary_key": ("p",)}, {"options": {"connector": "kafka"}}):
        with pytest.raises(UnsupportedError, match="E1627 a table of a Spark session cannot have"):
            create_table_text("t", CatalogTable(path, columns, **wrong))  # type: ignore[arg-type]
