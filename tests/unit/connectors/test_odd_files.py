"""Files that are none, cannot be reached or change; names that would lead elsewhere; folders that are watched while such
things happen in them."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_tables import REGISTRY, Context, end, rows_of, sink, source
from test_source_positions import inputs_of, numbers, put, stored

from connectors.formats.message_rows import MessageRows
from connectors.listing import Listing
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FormatError, OptionError
from runtime.core.schema import Schema
from runtime.core.types import DATE, INT, STRING
from runtime.spi.format import Payloads
from runtime.spi.source import SourceTable
from sqlengine import TableEnvironment

SCHEMA = Schema.of(("a", INT))
REASON = "a file that cannot be read, or not from there on"


def table(path: Path | str, format_: str = "json", **options: str) -> SourceTable:
    return source("filesystem", SCHEMA, {"path": str(path), "format": format_, **options})


WATCHED = {"source.monitor-interval": "1 s"}


def _odd(folder: Path) -> dict[str, Any]:
    """Names that are no files that can be read, and what is said of them."""
    os.mkfifo(folder / "b-pipe")
    bound = socket.socket(socket.AF_UNIX)
    os.symlink(folder / "c-loop", folder / "c-loop")
    os.symlink(folder / "nowhere", folder / "d-link")
    here = os.getcwd()
    os.chdir(folder)
    try:
        bound.bind("e-socket")
    finally:
        os.chdir(here)
        bound.close()
    return {
        "b-pipe": "it is a named pipe",
        "c-loop": "Too many levels of symbolic links",
        "d-link": "the symbolic link leads nowhere",
        "e-socket": "it is a socket",
    }


@pytest.mark.parametrize("format_", ["json", "csv", "parquet", "orc"])
def test_what_is_no_file_does_not_block(format_: str, tmp_path: Path) -> None:
    for name, said in _odd(tmp_path).items():
        with pytest.raises(ConnectorError, match=f"E3104 cannot read .*{name}: {said}") as caught:
            rows_of(table(tmp_path / name, format_))
        assert caught.value.hint is not None
    with pytest.raises(ConnectorError, match="E3104 .*: it is a device"):
        rows_of(table("/dev/zero", format_))


def test_odd_files_in_a_watched_folder_are_told_and_the_others_read(tmp_path: Path) -> None:
    put(tmp_path, "a", 1, 2)
    odd = _odd(tmp_path)
    (tmp_path / "f").write_text('{"a": 3}\nbad\n{"a": 4}\n')
    put(tmp_path, "g", 5)
    inputs = inputs_of(table(tmp_path, **WATCHED))
    given = inputs.poll(100)
    assert given.batch is not None and given.batch.column(0).to_pylist() == [1, 2, 3, 5]
    assert given.refused is not None
    told = {row.raw: row.reason for row in given.refused.rows}
    assert len(told) == len(odd) + 1
    for name, said in odd.items():
        assert told[f"cannot read {tmp_path / name}: {said}"] == f"{REASON} (E3104)"
    assert told[f"{tmp_path / 'f'}:2: not JSON: bad"] == f"{REASON} (E3201)"
    assert inputs.poll(100).refused is not None
    resumed = inputs_of(table(tmp_path, **WATCHED), stored(inputs.position()))
    assert numbers(resumed) == []


def test_one_policy_for_bad_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), tmp_path / "a")
    (tmp_path / "b").write_bytes(b"PAR1 no PAR1")
    pq.write_table(pa.table({"a": pa.array([2], pa.int32())}), tmp_path / "c")
    context = Context()
    assert rows_of(table(tmp_path, "parquet", **{"source.bad-files": "skip"}), context=context) == [(1,), (2,)]
    assert [row.reason for row in context.rejected] == [f"{REASON} (E3204)"]
    for options in ({}, {**WATCHED, "source.bad-files": "fail"}):
        with pytest.raises(FormatError, match=f"E3204 {tmp_path / 'b'} is not a Parquet file"):
            inputs_of(table(tmp_path, "parquet", **options)).poll(100)
    with pytest.raises(OptionError, match=r"'source.bad-files' cannot be 'never'"):
        table(tmp_path, **{"source.bad-files": "never"})


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_a_malformed_record_is_met_again_after_a_restart(rows: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"a": 1}\n{"a": 2}\nbad\n{"a": 3}\n')
    reader = table(tmp_path).open(table(tmp_path).splits()[0], Context())
    first = reader.poll(rows)
    assert first is not None and first.column(0).to_pylist() == [1, 2][:rows]
    resumed = table(tmp_path).open(table(tmp_path).splits()[0], Context())
    resumed.seek(stored(reader.position()))
    with pytest.raises(FormatError, match="x:3: not JSON"):
        for _ in range(3):
            resumed.poll(100)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_change_of_a_file_that_was_read_is_told_once(
    resumed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(Listing.__init__, "__defaults__", (lambda: now,))
    paths = [put(tmp_path, name, 1, 2) for name in "abc"]
    for path in paths:
        os.utime(path, ns=(0, 10**18))
    inputs = inputs_of(table(tmp_path, **WATCHED))
    assert numbers(inputs) == [1, 2] * 3
    if resumed:
        inputs = inputs_of(table(tmp_path, **WATCHED), stored(inputs.position()))
    with paths[0].open("a") as file:
        file.write('{"a": 3}\n')
    paths[1].write_text('{"a": 9}\n')
    os.utime(paths[2], ns=(0, 2 * 10**18))
    for moment, expected in (
        (2.0, ["has grown from 18 to 27 bytes", "has shrunk from 18 to 9", "has been written"]),
        (4.0, []),
    ):
        now = moment
        given = inputs.poll(100)
        assert given.batch is None
        refused = [] if given.refused is None else [row.raw for row in given.refused.rows]
        assert len(refused) == len(expected)
        for path, text, said in zip(paths, refused, expected, strict=False):
            assert text.startswith(f"{path} {said}")
    with paths[0].open("a") as file:
        file.write('{"a": 4}\n')
    now = 6.0
    given = inputs.poll(100)
    assert given.refused is not None
    assert [row.raw.split(":")[0] for row in given.refused.rows] == [
        f"{paths[0]} has grown from 27 to 36 bytes since it was read"
    ]


def test_links_to_folders_give_nothing_twice(tmp_path: Path) -> None:
    put(tmp_path / "in", "x.jsonl", 1)
    os.symlink(tmp_path / "in", tmp_path / "in" / "loop")
    os.symlink(tmp_path / "in", tmp_path / "in" / "loop2")
    for path in (tmp_path / "in", f"{tmp_path}/in/*", f"{tmp_path}/**/*.jsonl", f"{tmp_path}/**"):
        assert rows_of(table(path)) == [(1,)]


def test_odd_names(tmp_path: Path) -> None:
    names = [b"a\nb", b"caf\xe9", b"50%25", b"x=y", b"k=1=2", b" ", b"*"]
    for number, name in enumerate(names):
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
            file.write(b'{"a": %d}\n' % number)
    schema = Schema.of(("a", INT), ("p", STRING))
    read = source("filesystem", schema, {"path": str(tmp_path), "format": "json"}, metadata=(("p", "file.name"),))
    found = dict(rows_of(read))
    assert sorted(found) == list(range(len(names)))
    assert (found[0], found[1]) == ("a\\nb", "caf\\xe9")
    stored(inputs_of(read).position())
    bad = os.path.join(os.fsencode(tmp_path), b"bad\xff")
    with open(bad, "wb") as file:
        file.write(b"x")
    with pytest.raises(FormatError) as caught:
        rows_of(table(tmp_path))
    assert "bad\\xff:1: not JSON" in caught.value.message.encode().decode()
    for format_ in ("parquet", "orc"):
        with pytest.raises(FormatError, match=r"E3204 .*bad\\xff"):
            rows_of(table(os.fsdecode(bad), format_))


VALUES = [
    "..",
    "../../x",
    "/",
    "a/b",
    "",
    "%2F",
    "a=b",
    "\n",
    "\0",
    "é",
    ".",
    "_x",
    "__DEFAULT_PARTITION__",
    "a\\b",
    None,
]


@pytest.mark.parametrize("column", ["p", "../x", "a/b", "a=b", "..", "%", "Größe", ".", "a b"])
def test_partitions_stay_below_the_folder_of_the_table(column: str, tmp_path: Path) -> None:
    root = tmp_path / "deep" / "table"
    root.mkdir(parents=True)
    schema = Schema.of(("a", INT), (column, STRING))
    options = {"path": str(root), "format": "json"}
    writer = sink("filesystem", schema, options, partitioned_by=(column,)).open_writer("job")
    rows = [pa.array(range(len(VALUES)), pa.int32()), pa.array(VALUES, pa.string())]
    writer.write(ChangelogBatch.of(rows, schema))
    end(writer)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == len(VALUES)
    assert all(path.parent.parent == root for path in files)
    read = source("filesystem", schema, options, partitioned_by=(column,))
    assert sorted(rows_of(read)) == list(enumerate(VALUES))


def test_the_default_partition_is_one_name(tmp_path: Path) -> None:
    schema = Schema.of(("a", INT), ("p", STRING))
    options = {"path": str(tmp_path), "format": "json"}
    for wrong in ("../x", "a/b", "", "a\\b"):
        with pytest.raises(OptionError, match=r"'partition.default-name' cannot be"):
            sink("filesystem", schema, {**options, "partition.default-name": wrong}, partitioned_by=("p",))


def test_folders_of_partitions_that_are_none(tmp_path: Path) -> None:
    schema = Schema.of(("a", INT), ("p", DATE))
    for folder in ("p=2024-05-01", "p=..", "q=1", "p=%FF", "p="):
        put(tmp_path / folder, "x", 1)
    options = {"path": str(tmp_path), "format": "json", "source.bad-files": "skip"}
    context = Context()
    read = source("filesystem", schema, options, partitioned_by=("p",))
    assert len(rows_of(read, context=context)) == 1
    assert sorted(row.reason[-7:] for row in context.rejected) == ["(E3103)", "(E3106)", "(E3106)", "(E3106)"]


def test_a_quote_in_a_message_takes_nothing_from_the_next() -> None:
    schema = Schema.of(("a", INT), ("s", STRING))
    format_ = REGISTRY.formats.get("csv").create({"ignore-parse-errors": "true"})
    values = [b"1,x", b'2,"x', b'3,y"', b'4,"a\nb"', b"", b'5,"x"y', b"6,z", b'x","y', b"7,z"]
    rows = MessageRows.of(format_, schema, schema.names, "UTC", 1 << 20)
    found = rows.decode(Payloads.of(pa.array(values, pa.large_binary())))
    assert found.batch.column(0).to_pylist() == [1, 3, 4, 6, 7]
    assert found.message_of_row.tolist() == [0, 2, 3, 6, 8]
    assert [number for number, _ in found.rejected] == [1, 5, 7]


def test_files_that_are_left_out_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no")
    (tmp_path / "b.parquet").write_bytes(b"no")
    told: list[str] = []
    with TableEnvironment.create() as env:
        env.session.rejected.on_left_out = told.append
        env.execute_sql(
            f"CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet', "
            "'source.bad-files' = 'skip')"
        )
        for _ in range(2):
            assert env.execute_sql("SELECT * FROM t").to_arrow().num_rows == 0
        assert [name in text for name, text in zip("ab", sorted(told), strict=True)] == [True, True]
        assert all(text.startswith(f"warning: {tmp_path}/") and "Parquet" in text for text in told)
        assert env.session.rejected.total == 4
