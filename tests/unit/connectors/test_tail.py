"""Files that grow while they are read."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from connector_tables import Context, source

from connectors.filesystem import tail_reader
from runtime.core.errors import ConnectorError, FormatError, OptionError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, STRING
from sqlengine import TableEnvironment

SCHEMA = Schema.of(("id", BIGINT), ("name", STRING))
WATCHED = {"source.monitor-interval": "1 h", "source.tail": "true"}


def tailed(path: Path, format_: str = "json", **options: str) -> Any:
    return source("filesystem", SCHEMA, {"path": str(path), "format": format_, **WATCHED, **options})


def opened(table: Any, context: Context | None = None) -> Any:
    (split,) = table.splits()
    return table.open(split, context or Context())


def given(reader: Any, most: int = 1000) -> list[int]:
    """What it gives when it looks now."""
    reader.fetch_end_offset()
    rows: list[int] = []
    while (batch := reader.poll(most)) is not None:
        rows += batch.rows.column("id").to_pylist()
    return rows


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def lines(*ids: int) -> str:
    return "".join(json.dumps({"id": i, "name": "ä" * (i % 7)}) + "\n" for i in ids)


def test_rows_come_when_their_lines_have_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(1, 2) + '{"id": 3')
    reader = opened(tailed(path))
    assert given(reader) == [1, 2] and given(reader) == [] and not reader.finished
    assert 0 < reader.available_in() <= 3600
    append(path, "}\n" + lines(4))
    assert reader.poll(10) is None  # it is not time to look
    assert given(reader) == [3, 4]


@pytest.mark.parametrize("seed", range(6))
def test_every_row_once_from_every_position(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the file grows and the job stops in between."""
    monkeypatch.setattr(tail_reader, "_BLOCK", 200)
    monkeypatch.setattr(tail_reader, "_KNOWN_BY", 50)
    rng = random.Random(seed)
    path = tmp_path / "a.csv"
    format_: dict[str, str] = {"csv.header": "true", "csv.ignore-parse-errors": "true"}
    whole = "\ufeffid,name\n" + "".join(
        "bad,x\n" if rng.random() < 0.1 else f'{i},"two\nlines"\n' if i % 9 == 0 else f"{i},x\n" for i in range(200)
    )
    expected = [i for i in range(200) if f"\n{i}," in whole]
    data, at = whole.encode(), 0
    path.write_bytes(b"")
    table, context = tailed(path, "csv", **format_), Context()
    reader, rows = opened(table, context), list[int]()
    while at < len(data) or rows != expected:
        step = rng.randrange(1, 300)
        with path.open("ab") as file:
            file.write(data[at : at + step])
        at = min(len(data), at + step)
        reader.fetch_end_offset()
        for _ in range(rng.randrange(1, 12) if at < len(data) else 300):
            batch = reader.poll(rng.randrange(1, 9))
            if batch is not None:
                rows += batch.rows.column("id").to_pylist()
        if rng.random() < 0.4:
            position = json.loads(json.dumps(reader.position()))
            reader.close()
            table.__dict__.pop("_listed", None)
            reader = opened(table, context)
            reader.seek(position)
            assert reader.position() == {**reader.position(), **{k: position[k] for k in ("offset", "end", "rows")}}
    assert rows == expected
    assert len(context.rejected) >= whole.count("bad,x")


def test_a_file_that_is_another_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for change, says in (
        (lambda: path.write_text(lines(7)), "has shrunk from"),
        (lambda: (tmp_path / "b").write_text(lines(*range(9))) and (tmp_path / "b").rename(path), "has been replaced"),
        (path.unlink, "No such file"),
    ):
        path.write_text(lines(1, 2, 3))
        context = Context()
        reader = opened(tailed(path), context)
        assert given(reader) == [1, 2, 3]
        change()
        assert given(reader) == [] and reader.finished
        (told,) = context.rejected
        assert says in told.raw, told


def test_a_position_in_another_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(1, 2, 3))
    reader = opened(tailed(path))
    assert given(reader) == [1, 2, 3]
    position = reader.position()
    for content, says in ((lines(1), "is shorter"), (lines(4, 5, 6, 7), "has been replaced")):
        path.write_text(content)
        with pytest.raises(ConnectorError, match=f"E3105 .* {says}"):
            opened(tailed(path)).seek(position)


def test_malformed_and_long_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(1) + "{no\n" + lines(2))
    reader = opened(tailed(path, **{"source.bad-files": "fail"}))
    reader.fetch_end_offset()
    assert reader.poll(10).rows.column("id").to_pylist() == [1]
    with pytest.raises(FormatError, match="E3201 .*a.jsonl:2"):
        reader.poll(10)
    path.write_text(lines(1) + "x" * 3000)
    context = Context()
    reader = opened(tailed(path, **{"json.ignore-parse-errors": "true", "source.max-record-size": "1 kb"}), context)
    assert given(reader) == [1]
    append(path, "x\n" + lines(2))
    assert given(reader) == [2]
    assert [r.reason for r in context.rejected] == ["longer than 1024 bytes ('source.max-record-size')"]


def test_options_that_make_no_sense(tmp_path: Path) -> None:
    for options in (
        {"path": str(tmp_path), "format": "json", "source.tail": "true"},
        {"path": str(tmp_path), "format": "parquet", **WATCHED},
        {"path": str(tmp_path), "format": "json", "compression": "gzip", **WATCHED},
        {"path": "https://h/x", "format": "json", **WATCHED},
    ):
        with pytest.raises(OptionError, match=r"option 'source.tail' cannot be 'true'"):
            source("filesystem", SCHEMA, options)
    (tmp_path / "a.jsonl.gz").write_bytes(b"")
    with pytest.raises(ConnectorError, match="E3104 .* is compressed"):
        opened(tailed(tmp_path / "a.jsonl.gz", **{"source.bad-files": "fail"}))


def test_a_view_follows_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(1, 2))
    with TableEnvironment.create() as environment:
        run = environment.execute_sql
        options = ", ".join(f"'{k}' = '{v}'" for k, v in {**WATCHED, "path": str(tmp_path), "format": "json"}.items())
        run(f"CREATE TABLE t (id BIGINT, name STRING) WITH ('connector' = 'filesystem', {options})")
        run("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS c, SUM(id) AS s FROM t")
        run("FLUSH")
        assert run("SELECT * FROM v").to_arrow().to_pylist() == [{"c": 2, "s": 3}]
        append(path, lines(10))
        run("FLUSH")
        assert run("SELECT * FROM v").to_arrow().to_pylist() == [{"c": 3, "s": 13}]
