"""The connector `iceberg`: the contracts of sources and sinks, upserts against the library's own reader, and evolution."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import end, read_all, rows_of
from iceberg_tables import Lake, changes
from pyiceberg.table import Table

import connectors.iceberg.commits as commits
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import ConnectorError, OptionError, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, DOUBLE, INT, STRING
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SinkCase, SinkContract, SourceContract, some_epochs
from tests.servers.s3 import Bucket

SCHEMA = Schema.of(("id", INT), ("name", STRING))
KEYED = Schema.of(("id", INT.not_null()), ("name", STRING))
CASES = int(os.environ.get("LAKE_CASES", "1"))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def batch(schema: Schema, rows: list[tuple[Any, ...]]) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)], schema)


def put(table: Any, *batches: ChangelogBatch, job: str = "job") -> None:
    """What a job without checkpoints does."""
    writer = table.open_writer(job)
    for one in batches:
        writer.write(one)
    end(writer)
    writer.close()


def overwrite(table: Any, *batches: ChangelogBatch) -> None:
    writer = table.open_writer("job")
    for one in batches:
        writer.write(one)
    writer.complete()
    end(writer)


class TestSource(SourceContract):
    connectors = ("iceberg",)
    types = (
        "boolean", "int", "bigint", "float", "double", "decimal", "long_decimal", "string", "bytes", "date", "time",
        "timestamp", "timestamp_ltz", "array", "map", "row", "tinyint", "smallint",
    )  # fmt: skip

    @pytest.fixture
    def table(self, lake: Lake) -> Any:
        name = lake.make(SCHEMA)
        for part in range(2):
            rows = [(i, None if i % 3 == 0 else f"n{i}") for i in range(part * 5, part * 5 + 5)]
            put(lake.sink(name, SCHEMA), batch(SCHEMA, rows))
        return lake.source(name, SCHEMA)

    @pytest.fixture
    def holding(self, lake: Lake) -> Callable[[Schema, list[tuple[Any, ...]]], Any]:
        def held(schema: Schema, rows: list[tuple[Any, ...]]) -> Any:
            name = lake.make(schema)
            put(lake.sink(name, schema), batch(schema, rows))
            return lake.source(name, schema)

        return held


class TestSink(SinkContract):
    connectors = ("iceberg",)
    steps = ((commits, "commit"),)
    seeds = CASES

    @pytest.fixture
    def make(self, lake: Lake) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            name = lake.make(SCHEMA)
            return SinkCase(lake.sink(name, SCHEMA), lambda: lake.seen(name), *some_epochs(rng, SCHEMA, 3))

        return case


class TestUpserts(SinkContract):
    """The law: what the library reads after a checkpoint is what the changes so far amount to."""

    connectors = ("iceberg",)
    steps = ((commits, "commit"),)
    seeds = CASES + 1

    @pytest.fixture
    def make(self, lake: Lake) -> Callable[[random.Random], SinkCase]:
        def case(rng: random.Random) -> SinkCase:
            options = {"partitioning": "bucket(3, id)"} if rng.random() < 0.5 else {}
            name = lake.make(KEYED, ("id",), **options)
            epochs, tables = random_changes(rng)
            return SinkCase(
                lake.sink(name, KEYED, ("id",)),
                lambda: lake.seen(name),
                epochs,
                lambda n: sorted(tables[n].items(), key=repr),
            )

        return case


def random_changes(rng: random.Random) -> tuple[list[ChangelogBatch], list[dict[int, Any]]]:
    """Epochs of changes by key, and the table behind each."""
    table: dict[int, Any] = {}
    epochs: list[ChangelogBatch] = []
    tables: list[dict[int, Any]] = [{}]
    for _ in range(4):
        made: list[tuple[int, tuple[Any, ...]]] = []
        for _ in range(rng.choice((0, 1, 5, 12))):
            key = rng.randrange(8)
            if key in table and rng.random() < 0.3:
                made.append((DELETE, (key, None if rng.random() < 0.5 else table[key])))
                del table[key]
            else:
                value = rng.choice((None, "a", f"v{rng.randrange(100)}"))
                made.append((UPDATE_AFTER if key in table else INSERT, (key, value)))
                table[key] = value
        epochs.append(changes(KEYED, made))
        tables.append(dict(table))
    return epochs, tables


# --- upserts
# ---------------------------------------------------------------------------------------------------------------------


def test_an_upsert_writes_no_data_file_again(lake: Lake) -> None:
    schema = Schema.of(("id", BIGINT.not_null()), ("v", BIGINT))
    name = lake.make(schema, ("id",))
    table = lake.sink(name, schema, ("id",))
    count = 20_000
    put(table, ChangelogBatch.of([pa.array(range(count)), pa.array(range(count))], schema))
    before = data_files(lake, name)
    put(table, batch(schema, [(7, -1), (count - 1, -2), (count, -3)]))
    assert before < data_files(lake, name)
    rows = dict(lake.catalog.load_table(("db", name)).scan().to_arrow().to_pandas().itertuples(index=False))
    assert len(rows) == count + 1
    assert [rows[i] for i in (6, 7, count - 1, count)] == [6, -1, -2, -3]


def data_files(lake: Lake, name: str) -> set[str]:
    return {task.file.file_path for task in lake.catalog.load_table(("db", name)).scan().plan_files()}


def test_keys_of_several_columns(lake: Lake) -> None:
    schema = Schema.of(("a", STRING.not_null()), ("b", INT.not_null()), ("v", DOUBLE))
    name = lake.make(schema, ("a", "b"), partitioning="truncate(1, a)")
    table = lake.sink(name, schema, ("a", "b"))
    put(table, batch(schema, [("x", 1, 1.0), ("x", 2, 2.0), ("y", 1, 3.0)]))
    put(table, changes(schema, [(DELETE, ("x", 2, None)), (UPDATE_AFTER, ("y", 1, 4.0))]))
    assert lake.seen(name) == [("x", 1, 1.0), ("y", 1, 4.0)]


def test_equality_deletes_of_others_are_applied(lake: Lake) -> None:
    name = lake.make(KEYED, ("id",))
    put(lake.sink(name, KEYED, ("id",)), batch(KEYED, [(1, "a"), (2, None), (3, None), (4, "d")]))
    delete_by_key(lake, name, "name", [None, "d"])
    assert rows_of(lake.source(name, KEYED)) == [(1, "a")]
    put(lake.sink(name, KEYED, ("id",)), batch(KEYED, [(4, "d")]))
    assert sorted(rows_of(lake.source(name, KEYED))) == [(1, "a"), (4, "d")]
    assert rows_of(lake.source(name, KEYED).with_columns(["id"])) == [(1,), (4,)]
    with pytest.raises(ValueError, match="equality deletes"):
        lake.seen(name)


def delete_by_key(lake: Lake, name: str, column: str, values: list[Any]) -> None:
    """What Flink writes."""
    from pyiceberg.manifest import DataFileContent
    from pyiceberg.table.snapshots import Operation

    from connectors.iceberg.staging import written_files

    table: Table = lake.catalog.load_table(("db", name))
    rows = pa.table({"id": pa.array([0] * len(values), pa.int32()), column: pa.array(values, pa.string())})
    (file,) = written_files(rows, table.metadata, table.io)
    file._data[0], file._data[14] = DataFileContent.EQUALITY_DELETES, [table.schema().find_field(column).field_id]
    commits.LakeSnapshot(table, Operation.OVERWRITE, {}, (), [file]).commit_to(table, {})


# --- others write, too
# ---------------------------------------------------------------------------------------------------------------------


def test_writers_beside_each_other(lake: Lake) -> None:
    name = lake.make(KEYED, ("id",))
    failures: list[BaseException] = []

    def write(job: int) -> None:
        try:
            writer = lake.sink(name, KEYED, ("id",)).open_writer(f"job{job}")
            for n in range(2):
                writer.write(batch(KEYED, [(job * 100 + n, f"{n}"), (job * 100, f"last {n}")]))
                writer.publish(writer.prepare())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(job,)) for job in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    expected = [(j * 100 + n, "last 1" if n == 0 else f"{n}") for j in (1, 2) for n in range(2)]
    assert lake.seen(name) == sorted(expected, key=repr)


def test_the_number_of_a_commit_outlives_its_snapshot(lake: Lake) -> None:
    name = lake.make(SCHEMA)
    table = lake.sink(name, SCHEMA)
    writer = table.open_writer("job")
    writer.write(batch(SCHEMA, [(1, "a")]))
    named = writer.prepare()
    writer.publish(named)
    put(table, batch(SCHEMA, [(2, "b")]), job="other")
    loaded = lake.catalog.load_table(("db", name))
    loaded.maintenance.expire_snapshots().by_id(loaded.metadata.snapshots[0].snapshot_id).commit()
    table.open_writer("job").recover([named])
    assert [row[0] for row in lake.seen(name)] == [1, 2]


# --- reading
# ---------------------------------------------------------------------------------------------------------------------


def test_columns_are_read_by_their_number(lake: Lake) -> None:
    schema = Schema.of(("id", INT), ("name", STRING), ("gone", STRING))
    name = lake.make(schema)
    put(lake.sink(name, schema), batch(schema, [(1, "a", "x")]))
    with lake.catalog.load_table(("db", name)).update_schema() as update:
        update.rename_column("name", "title")
        update.delete_column("gone")
        update.add_column("more", lake.catalog.load_table(("db", name)).schema().find_type("id"))
        update.update_column("id", field_type=__import__("pyiceberg.types", fromlist=["x"]).LongType())
    now = Schema.of(("id", BIGINT), ("title", STRING), ("more", INT))
    put(lake.sink(name, now), batch(now, [(2**40, "b", 5)]))
    table = lake.source(name, now)
    assert rows_of(table) == [(1, "a", None), (2**40, "b", 5)]
    assert rows_of(table.with_columns(["title"])) == [("a",), ("b",)]
    with pytest.raises(UnsupportedError, match='has no column "name"'):
        rows_of(lake.source(name, schema))


def test_time_travel(lake: Lake) -> None:
    name = lake.make(SCHEMA)
    for n in range(3):
        put(lake.sink(name, SCHEMA), batch(SCHEMA, [(n, None)]))
    table = lake.catalog.load_table(("db", name))
    first, second, _ = table.metadata.snapshots
    table.manage_snapshots().create_tag(first.snapshot_id, "first").create_branch(second.snapshot_id, "side").commit()

    def ids(**options: str) -> list[int]:
        return [row[0] for row in rows_of(lake.source(name, SCHEMA, **options))]

    assert ids(snapshot_id=str(second.snapshot_id)) == [0, 1]
    assert ids(as_of_timestamp=str(second.timestamp_ms)) == [0, 1]
    assert ids(tag="first") == [0]
    put(lake.sink(name, SCHEMA, branch="side"), batch(SCHEMA, [(9, None)]))
    assert ids(branch="side") == [0, 1, 9]
    assert ids() == [0, 1, 2]
    for wrong, told in (
        ({"snapshot_id": "5"}, "no snapshot 5"),
        ({"tag": "furst"}, "no tag 'furst'"),
        ({"branch": "x"}, "no branch 'x'"),
        ({"as_of_timestamp": "5"}, "as old as 5"),
    ):
        with pytest.raises(ConnectorError, match=f"E3192 .*{told}"):
            ids(**wrong)
    with pytest.raises(OptionError, match="exclude each other"):
        lake.source(name, SCHEMA, tag="first", branch="side")


def test_files_and_row_groups_are_skipped(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    import connectors.iceberg.reading as reading

    name = lake.make(SCHEMA)
    for n in range(4):
        put(lake.sink(name, SCHEMA), batch(SCHEMA, [(n * 10 + i, f"n{i}") for i in range(10)]))
    read: list[str] = []
    real = reading.Files._opened

    def counted(self: Any, file: Any) -> Any:
        read.append(file.file_path)
        return real(self, file)

    monkeypatch.setattr(reading.Files, "_opened", counted)
    from runtime.core.types import BOOLEAN
    from runtime.expr.nodes import Call, InputRef, Literal

    condition = Call("=", (InputRef(0, INT), Literal(25, INT.not_null())), BOOLEAN)
    table, left = lake.source(name, SCHEMA).with_filters([condition])
    assert not left
    assert rows_of(table) == [(25, "n5")]
    assert len(read) == 1


# --- snapshot after snapshot
# ---------------------------------------------------------------------------------------------------------------------


def follow(
    lake: Lake, name: str, schema: Schema, *, key: tuple[str, ...] = (), position: Any = None, **options: str
) -> Any:
    """What is there now, of a table that is followed; and the position behind it."""
    from connector_tables import Context

    table = lake.source(name, schema, key, streaming="true", **options)
    (split,) = table.splits()
    reader = table.open(split, Context())
    if position is not None:
        reader.seek(position)
    found: list[Any] = []
    while (rows := reader.poll(100)) is not None:
        found += list(zip(rows.kinds_or_inserts().tolist(), (tuple(r.values()) for r in rows.rows.to_pylist())))
    at = reader.position()
    reader.close()
    return found, at


def test_appends_are_followed(lake: Lake) -> None:
    name = lake.make(SCHEMA)
    found, at = follow(lake, name, SCHEMA)
    assert found == []
    put(lake.sink(name, SCHEMA), batch(SCHEMA, [(1, "a")]))
    put(lake.sink(name, SCHEMA), batch(SCHEMA, [(2, "b")]))
    found, at = follow(lake, name, SCHEMA, position=at)
    assert found == [(INSERT, (1, "a")), (INSERT, (2, "b"))]
    assert follow(lake, name, SCHEMA, position=at)[0] == []
    first = lake.catalog.load_table(("db", name)).metadata.snapshots[0].snapshot_id
    assert follow(lake, name, SCHEMA, start_snapshot_id=str(first))[0] == [(INSERT, (2, "b"))]
    assert follow(lake, name, SCHEMA, starting_strategy="INCREMENTAL_FROM_LATEST_SNAPSHOT")[0] == []
    overwrite(lake.sink(name, SCHEMA).with_overwrite({}), batch(SCHEMA, [(3, "c")]))
    with pytest.raises(ConnectorError, match="E3193 .*takes rows away"):
        follow(lake, name, SCHEMA, position=at)
    found, _ = follow(lake, name, SCHEMA, position=at, streaming_changes="true")
    assert found == [(DELETE, (1, "a")), (DELETE, (2, "b")), (INSERT, (3, "c"))]


@pytest.mark.parametrize("seed", range(CASES + 1))
def test_what_is_followed_adds_up_to_the_table(lake: Lake, seed: int) -> None:
    rng = random.Random(seed)
    name = lake.make(KEYED, ("id",), **({"partitioning": "bucket(3, id)"} if seed % 2 else {}))
    epochs, _ = random_changes(rng)
    rows: dict[Any, int] = {}
    at = None
    for number, epoch in enumerate(epochs, 1):
        put(lake.sink(name, KEYED, ("id",)), epoch)
        if rng.random() < 0.3:
            delete_by_key(lake, name, "name", ["a"])
        if rng.random() < 0.5 and number < len(epochs):
            continue
        found, at = follow(lake, name, KEYED, key=("id",), position=at)
        for kind, row in found:
            rows[row] = rows.get(row, 0) + (-1 if kind == DELETE else 1)
            assert rows[row] >= 0
        now = {row for row, count in rows.items() if count}
        assert now == set(rows_of(lake.source(name, KEYED)))
        assert all(count <= 1 for count in rows.values())


def test_an_expired_snapshot_is_told(lake: Lake) -> None:
    name = lake.make(SCHEMA)
    put(lake.sink(name, SCHEMA), batch(SCHEMA, [(1, "a")]))
    _, at = follow(lake, name, SCHEMA)
    for n in range(2):
        put(lake.sink(name, SCHEMA), batch(SCHEMA, [(n, "b")]))
    table = lake.catalog.load_table(("db", name))
    table.maintenance.expire_snapshots().by_ids([s.snapshot_id for s in table.metadata.snapshots[:2]]).commit()
    with pytest.raises(ConnectorError, match="E3192 .*was expired"):
        follow(lake, name, SCHEMA, position=at)


def test_overwrites(lake: Lake) -> None:
    name = lake.make(SCHEMA, partitioning="id")
    table = lake.sink(name, SCHEMA)
    put(table, batch(SCHEMA, [(1, "a"), (2, "b")]))
    writer = table.with_overwrite({}).open_writer("job")
    writer.write(batch(SCHEMA, [(2, "c")]))
    held = writer.prepare()
    writer.publish(held)
    assert lake.seen(name) == [(1, "a"), (2, "b")]
    writer = table.with_overwrite({}).open_writer("job")
    writer.recover([held])
    writer.write(batch(SCHEMA, [(2, "d")]))
    writer.complete()
    writer.publish(writer.prepare())
    assert lake.seen(name) == [(1, "a"), (2, "c"), (2, "d")]
    overwrite(table.with_overwrite({"id": 1}))
    assert lake.seen(name) == [(2, "c"), (2, "d")]


def test_rows_of_all_kinds_of_partitions(lake: Lake) -> None:
    name = lake.make(SCHEMA, partitioning="truncate(2, name), bucket(2, id)")
    rows = [(i, None if i == 3 else f"n{i}") for i in range(6)]
    put(lake.sink(name, SCHEMA), batch(SCHEMA, rows))
    assert sorted(read_all(lake.source(name, SCHEMA))) == [(0, row) for row in rows]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("buket(2, id)", "did you mean .bucket"),
        ("days(id)", "does not take column id"),
        ("nam", "did you mean .name"),
        ("bucket(x", "has no transform"),
    ],
)
def test_transforms_that_are_none(lake: Lake, given: str, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        lake.make(SCHEMA, partitioning=given)


# --- upkeep
# ---------------------------------------------------------------------------------------------------------------------


def test_compaction(lake: Lake) -> None:
    name = lake.make(KEYED, ("id",), partitioning="bucket(2, id)")
    table = lake.sink(name, KEYED, ("id",))
    for n in range(4):
        put(table, batch(KEYED, [(i, f"{n}") for i in range(n, n + 5)]))
    before = lake.seen(name)
    _, at = follow(lake, name, KEYED, key=("id",))
    done = table.compact(1 << 20)
    assert [(d.folder, d.before, d.after) for d in done] == [("id_bucket=0", 4, 1), ("id_bucket=1", 4, 1)]
    assert lake.seen(name) == before == sorted(rows_of(lake.source(name, KEYED)), key=repr)
    found = list(lake.catalog.load_table(("db", name)).scan().plan_files())
    assert len(found) == 2 and not any(task.delete_files for task in found)
    assert table.compact(1 << 20) == []
    put(table, batch(KEYED, [(0, "new")]))
    assert follow(lake, name, KEYED, key=("id",), position=at)[0] == [(DELETE, (0, "0")), (INSERT, (0, "new"))]


def test_old_snapshots_and_orphans(lake: Lake) -> None:
    name = lake.make(KEYED, ("id",))
    table = lake.sink(name, KEYED, ("id",))
    for n in range(3):
        put(table, batch(KEYED, [(1, f"{n}")]))
    table.compact(1 << 20)
    writer = table.open_writer("failed")
    writer.write(batch(KEYED, [(9, "x")]))
    writer.prepare()  # and it is never heard of again
    snapshots, files = table.expire_versions(2**62, 1)
    assert snapshots == 3 and files >= 8
    for folder, _, names in os.walk(lake.warehouse):
        for one in names:
            os.utime(os.path.join(folder, one), (1, 1))
    left = table.remove_orphan_files(2_000, True)
    assert len(left) == 3
    assert list(table.remove_orphan_files(2_000, False)) == list(left)
    assert table.remove_orphan_files(2_000, False) == []
    assert lake.seen(name) == [(1, "2")]
    put(table, batch(KEYED, [(2, "b")]))
    assert lake.seen(name) == [(1, "2"), (2, "b")]


def test_a_warehouse_in_an_object_store(tmp_path: Path, s3_endpoint: str) -> None:
    store = Bucket.made(s3_endpoint, "lake-iceberg")
    given = {
        "catalog-type": "sql",
        "uri": f"sqlite:///{tmp_path}/names.db",
        "warehouse": f"s3://{store.name}/lake",
        "s3.endpoint": s3_endpoint,
        "s3.region": "us-east-1",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
    }
    options = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'iceberg', {options})")
        t_env.execute_script(
            "CREATE DATABASE lake.db; CREATE TABLE lake.db.t (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED);"
            "INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b'); INSERT INTO lake.db.t VALUES (1, 'c')"
        )
        found = t_env.execute_sql("SELECT * FROM lake.db.t ORDER BY id").to_arrow().to_pylist()
        assert found == [{"id": 1, "name": "c"}, {"id": 2, "name": "b"}]
        orphans = "CALL sys.remove_orphan_files('lake.db.t', CURRENT_TIMESTAMP - INTERVAL '2' HOUR)"
        assert t_env.execute_sql(orphans).to_arrow().num_rows == 0
        shown = t_env.execute_sql("SHOW CREATE TABLE lake.db.t").to_arrow().column(0)[0].as_py()
        assert "'s3.secret-access-key' = '******'" in shown
