"""Whatever files hold: rows and rejected records add up to what was given, errors have a code and name the file, and
neither time nor memory runs away."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import column_bombs
import malformed_lines as lines
import pytest
from connector_tables import REGISTRY, Context, rows_of, source
from malformed_files import packed

from connectors.formats import csv_decoder, csv_records, json_decoder
from runtime.core.errors import FormatError, OptionError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING

Line = Callable[[int], bytes]


def _event(line: bytes) -> bytes:
    return b'{"op": "c", "before": null, "after": ' + line + b"}"


def _rows(line: bytes) -> bytes:
    return b'{"type": "INSERT", "data": [' + line + b"]}"


FORMATS: dict[str, tuple[Schema, Line, dict[str, bytes], dict[str, str]]] = {
    "json": (lines.JSON_SCHEMA, lines.json_good, lines.JSON, {}),
    "debezium-json": (
        lines.JSON_SCHEMA,
        lambda number: _event(lines.json_good(number)),
        {name: line if place % 2 else _event(line) for place, (name, line) in enumerate(lines.JSON.items())},
        {},
    ),
    "canal-json": (
        lines.JSON_SCHEMA,
        lambda number: _rows(lines.json_good(number)),
        {name: line if place % 2 else _rows(line) for place, (name, line) in enumerate(lines.JSON.items())},
        {},
    ),
    "csv": (lines.CSV_SCHEMA, lines.csv_good, lines.CSV, {}),
    "csv with escapes": (lines.CSV_SCHEMA, lines.csv_good, lines.CSV, {"csv.escape-character": "\\"}),
}
CASES = [(format_, name) for format_, (_, _, kinds, _) in FORMATS.items() for name in kinds]


def _table(format_: str, path: Path, **more: str) -> Any:
    schema, _, _, options = FORMATS[format_]
    name = format_.split()[0]
    given = {"path": str(path), "format": name, **options, **more}
    return source("filesystem", schema, given)


def _lenient(format_: str) -> dict[str, str]:
    return {f"{format_.split()[0]}.ignore-parse-errors": "true"}


@pytest.mark.long
@pytest.mark.parametrize("format_", FORMATS)
def test_every_row_is_accounted_for(format_: str, tmp_path: Path) -> None:
    _, good, kinds, _ = FORMATS[format_]
    assert len(kinds) >= 100
    path = tmp_path / "x"
    for name, bad in kinds.items():
        alone = Context()
        path.write_bytes(bad)
        assert len(rows_of(_table(format_, path, **_lenient(format_)), context=alone)) + len(alone.rejected) == 1, name
        for place in (30, 15, 0) if name != "a byte order mark" else (0,):
            given = [good(number) for number in range(10, 40)]
            given.insert(place, bad)
            path.write_bytes(b"\n".join(given))
            context = Context()
            rows = rows_of(_table(format_, path, **_lenient(format_)), context=context)
            assert len(rows) + len(context.rejected) == len(given), name
            # A record means the same whatever stands beside it, and takes nothing away from it.
            assert len(context.rejected) == len(alone.rejected), name
            assert [row[0] for row in rows if row[0] in range(10, 40)] == list(range(10, 40)), name


@pytest.mark.parametrize("format_", FORMATS)
def test_the_error_names_file_and_line(format_: str, tmp_path: Path) -> None:
    _, good, kinds, _ = FORMATS[format_]
    path = tmp_path / "x"
    told = 0
    for name, bad in kinds.items():
        path.write_bytes(b"\n".join([good(1), good(2), bad, good(3)]))
        given: list[Any] = []
        try:
            reader = (table := _table(format_, path)).open(table.splits()[0], Context())
            while not reader.finished:
                batch = reader.poll(100)
                given += [] if batch is None else batch.rows.column(0).to_pylist()
        except FormatError as error:
            told += 1
            assert error.code == "E3201", name
            assert error.message.startswith(f"{path}:3: "), (name, error.message)
            assert len(error.message) < 500, name
            assert given == [1, 2], name
    assert told > len(kinds) // 2


# --- cost
# ----------------------------------------------------------------------------------------------------------------------


class _Work:
    """Counts the bytes that parsers get, and how often they are called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = self.calls = 0
        self._patch(monkeypatch, json_decoder.pj, "read_json", lambda given: given.size())
        self._patch(monkeypatch, csv_decoder.pcsv, "read_csv", lambda given: given.size())
        self._patch(monkeypatch, json_decoder, "parse_line", len)
        patterns = csv_records._patterns
        work = self

        class Counting:
            def __init__(self, pattern: re.Pattern[bytes]) -> None:
                self._pattern = pattern

            def match(self, data: bytes, begin: int, end: int) -> re.Match[bytes] | None:
                found = self._pattern.match(data, begin, end)
                unclosed = found is None or data[found.end() : found.end() + 1] == b'"'
                work.bytes += (end if unclosed or found is None else found.end()) - begin
                return found

        monkeypatch.setattr(
            csv_records, "_patterns", lambda *given: (Counting(patterns(*given)[0]), *patterns(*given)[1:])
        )

    def _patch(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, size: Callable[[Any], int]) -> None:
        plain = getattr(module, name)

        def counting(given: Any, *more: Any) -> Any:
            self.bytes += size(given)
            self.calls += 1
            return plain(given, *more)

        monkeypatch.setattr(module, name, counting)


MIXES: dict[str, Callable[[int], bool]] = {
    "all": lambda number: True,
    "every other": lambda number: number % 2 == 1,
    "one in seven": lambda number: number % 7 == 3,
    "at random": lambda number: (number * 2654435761) % 4096 < 700,
    "the last": lambda number: number == 3999,
}
BAD: dict[str, list[bytes]] = {
    "json": [
        b'{"a": }',
        b'{"a": "x"}',
        b"x",
        b'{"c": 1e20}',
        b'{"s": "\xff"}',
        b'{"s": "\\ud800"}',
        b'{"a":1}' + b" " * 90,
    ],
    "csv": [
        b"x",
        b"x,y,1,,,",
        b'1,"x,1,,,',
        b'x","y',
        b"1,\xff,1,,,",
        b"1,x,1e9,,,",
        b'"""',
        b'1,"x"y,1,,,',
        b'1,"x\\',
    ],
}


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize(("format_", "bad"), [(f, bad) for f, kinds in BAD.items() for bad in kinds], ids=repr)
def test_work_is_linear_in_bytes(format_: str, bad: bytes, mix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, good, _, options = FORMATS["csv with escapes" if bad.endswith(b"\\") else format_]
    plain = {key.removeprefix("csv."): value for key, value in options.items()}
    work = _Work(monkeypatch)
    counted: list[tuple[int, int]] = []
    for count in (2000, 4000):
        text = b"\n".join(bad if MIXES[mix](n + 4000 - count) else good(n) for n in range(count)) + b"\n"
        work.bytes = work.calls = 0
        decoded = REGISTRY.formats.get(format_).create(plain).decoder(schema, "UTC").decode(text, True)
        assert len(decoded.batch) + len(decoded.rejected) == count
        assert work.bytes <= 12 * len(text)
        counted.append((work.bytes, work.calls))
    assert counted[1][0] <= 2.6 * counted[0][0] + 100_000
    assert counted[1][1] <= 2.6 * counted[0][1] + 40


def test_the_error_of_line_one_does_not_wait_for_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"bad\n" * 500_000)
    for format_ in ("json", "csv"):
        with monkeypatch.context() as patch:
            work = _Work(patch)
            with pytest.raises(FormatError, match=r"x:1: "):
                rows_of(_table(format_, path))
            assert work.bytes < 500_000


# --- files
# ----------------------------------------------------------------------------------------------------------------------


def _apart(*what: str | Path, script: str = "malformed_files.py") -> dict[str, dict[str, Any]]:
    """In a process of its own, which may not take 500 MB."""
    command = [sys.executable, Path(__file__).with_name(script), *what]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["megabytes"] < 500, found["megabytes"]
    return found["outcomes"]


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_damaged_files_of_columns(format_: str, tmp_path: Path) -> None:
    found = _apart(format_, tmp_path)
    assert len(found) >= 100
    for name, one in found.items():
        assert one["code"] in ("", "E3204", "E3205", "E3206", "E3207"), (name, one)
        assert not one["code"] or "damaged." in one["message"], (name, one)
        # What the footer does not guard may be damaged unnoticed; a checksum guards the pages of Parquet.
        assert one["code"] or one["rows"] == 600, (name, one)
    assert sum(bool(one["code"]) for one in found.values()) > 60


def test_large_files_take_little_memory(tmp_path: Path) -> None:
    found = _apart("large", tmp_path)
    for format_ in ("csv", "json"):
        for name in ("a line of 40 MB", "zeros"):
            assert (found[f"{format_}: {name}"]["rows"], found[f"{format_}: {name}"]["rejected"]) == (0, 1)
        assert found[f"{format_}: nothing but line ends"] == {"rows": 0, "rejected": 0, "code": "", "message": ""}
        assert found[f"{format_}: malformed lines"]["rejected"] == 200_000
    swallowing = found["csv: a quote that is not closed"]
    assert (swallowing["rows"], swallowing["rejected"]) == (30 << 18, 1)
    for name in (n for n in found if n.startswith("a bomb")):
        assert found[name]["code"] == "E3207", name
        assert "source.max-decompression-ratio" in found[name]["message"]


def _lines_of(count: int) -> bytes:
    return b"".join(b'{"a": %d, "s": "%d"}\n' % (n, n * 7919 % 10007) for n in range(count))


def _packed_kinds(suffix: str) -> Iterator[tuple[str, bytes, int | None]]:
    """Compressed files, and how many rows they hold: None where they are damaged."""
    whole = packed(suffix, _lines_of(3000))
    yield "whole", whole, 3000
    yield "empty", b"", None
    yield "text", _lines_of(3), None
    for part in range(1, 10):
        yield f"cut {part}", whole[: len(whole) * part // 10], None
    yield "more behind", whole + b"more", None
    if suffix != "deflate":
        yield "two members", whole + whole, 6000
        yield "a member that is cut", whole + whole[:-9], None
    for part in range(1, 9):
        at = len(whole) * part // 9
        yield f"zeros {part}", whole[:at] + bytes(30) + whole[at + 30 :], None


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zst", "deflate"])
def test_damaged_compressed_files(suffix: str, tmp_path: Path) -> None:
    schema = Schema.of(("a", INT), ("s", STRING))
    path = tmp_path / f"x.{suffix}"
    for name, data, count in _packed_kinds(suffix):
        path.write_bytes(data)
        options = {"path": str(path), "format": "json", "json.ignore-parse-errors": "true"}
        context = Context()
        if count is not None:
            assert len(rows_of(source("filesystem", schema, options))) == count, name
            continue
        with pytest.raises(FormatError, match=r"E3206 .*x\.") as caught:
            rows_of(source("filesystem", schema, options))
        assert caught.value.hint is not None
        rows = rows_of(source("filesystem", schema, {**options, "source.bad-files": "skip"}), context=context)
        assert [r.reason for r in context.rejected[-1:]] == ["a file that cannot be read, or not from there on (E3206)"]
        if not name.startswith("zeros"):
            assert [a for a, _ in rows] == [n % 3000 for n in range(len(rows))]


def test_limits_are_options(tmp_path: Path) -> None:
    schema = Schema.of(("a", INT), ("s", STRING))
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1, "s": "%s"}\n{"a": 2}\n' % (b"x" * 2000))
    options = {"path": str(path), "format": "json", "source.max-record-size": "1 kb"}
    with pytest.raises(FormatError, match=r"E3201 .*x\.jsonl:1: longer than 1024 bytes \('source.max-record-size'\)"):
        rows_of(source("filesystem", schema, options))
    context = Context()
    assert rows_of(source("filesystem", schema, {**options, "json.ignore-parse-errors": "true"}), context=context) == [
        (2, None)
    ]
    assert len(context.rejected) == 1
    long = tmp_path / "x.csv"
    long.write_bytes(b'1,"' + b"x\n" * 2000 + b'"\n2,y\n')
    options = {"path": str(long), "format": "csv", "csv.ignore-parse-errors": "true", "source.max-record-size": "1 kb"}
    context = Context()
    assert rows_of(source("filesystem", schema, options), context=context) == [(2, "y")]
    assert len(context.rejected) == 2001
    small = tmp_path / "x.gz"
    small.write_bytes(packed("gz", _lines_of(1000)))
    options = {"path": str(small), "format": "json", "source.max-decompressed-size": "10 kb"}
    with pytest.raises(FormatError, match=r"E3207 .*x\.gz holds more than 10240 bytes, the limit of"):
        rows_of(source("filesystem", schema, options))
    for wrong in (
        {"source.max-record-size": "0"},
        {"source.max-decompression-ratio": "0"},
        {"source.max-record-size": "x"},
    ):
        with pytest.raises(OptionError, match="E1500 option 'source.max"):
            source("filesystem", schema, {"path": str(small), "format": "json", **wrong})


def test_crafted_files_of_columns_take_little_memory(tmp_path: Path) -> None:
    expected = column_bombs.craft(tmp_path)
    found = _apart(tmp_path, script="column_bombs.py")
    assert {name: one["code"] for name, one in found.items()} == expected
    assert found["texts.parquet"]["rows"] == 300
    limits = {"page": "page-size", "lying-page": "page-size", "stripe": "page-size", "rows": "decompression-ratio"}
    for name, one in found.items():
        assert not one["rows"] or not one["code"], name
        if one["code"] == "E3207":
            assert f"'source.max-{limits[name.partition('.')[0]]}'" in one["message"] or "ratio" in one["message"], one


def test_what_is_meant_is_read_by_option(tmp_path: Path) -> None:
    column_bombs.craft(tmp_path)
    more = {"source.max-page-size": "1 gb", "source.max-decompression-ratio": "1000000"}
    for name, rows in (("page.parquet", 1), ("stripe.orc", 20_000_000)):
        given = {"path": str(tmp_path / name), "format": name.rpartition(".")[2], **more}
        table = source("filesystem", column_bombs.SCHEMA, given)
        reader = table.open(table.splits()[0], Context())
        count = 0
        while not reader.finished:
            batch = reader.poll(1 << 20)
            count += 0 if batch is None else len(batch)
        assert count == rows
