"""Files in an object store, on a server and in HDFS: the same are found and read as in a folder, whatever the network does."""

from __future__ import annotations

import http.server
import io
import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from connector_tables import Context, drain, read_all, rows_of, source
from pyarrow import fs

from connectors.filesystem import remote_reader
from connectors.filesystem.files import list_files
from connectors.filesystem.systems import choice, fetched_file, hadoop, web
from runtime.checkpoint import remote_storage
from runtime.core.errors import ConnectorError, OptionError, SqlEngineError, UnavailableError
from runtime.core.retries import Retries
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, DATE, INT, STRING
from runtime.spi.source import SourceTable
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SourceContract
from tests.servers.s3 import Bucket, CutWay

SCHEMA = Schema.of(("id", INT), ("name", STRING))
RECORDS = [{"id": i, "name": f"n,{i}" if i % 3 else None} for i in range(23)]
ROWS = [(r["id"], r["name"]) for r in RECORDS]
_ROWS_OF_A_LARGE_TABLE = int(os.environ.get("REMOTE_ROWS", "300000"))


@pytest.fixture(scope="module")
def bucket(s3_endpoint: str) -> Bucket:
    return Bucket.made(s3_endpoint, "files")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_storage, "_RETRIES", {"max_retries": 0})
    monkeypatch.setattr(remote_reader, "_RETRIES", Retries(2, 0.001))
    monkeypatch.setattr(web, "_RETRIES", Retries(1, 0.001))


def lines(records: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(r) for r in records)


def parquet(records: list[dict[str, Any]], **more: Any) -> bytes:
    table = pa.Table.from_pylist(records, SCHEMA.arrow)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **more)
    return buffer.getvalue()


def table_of(bucket: Bucket, path: str, format_: str = "json", schema: Schema = SCHEMA, **more: str) -> SourceTable:
    options = {"path": f"s3://{bucket.name}/{path}", "format": format_, **bucket.options, **more}
    return source("filesystem", schema, options)


class _RemoteContract(SourceContract):
    connectors = ("filesystem",)
    prefix: str

    @pytest.fixture
    def away(self, bucket: Bucket) -> Callable[[], AbstractContextManager[SourceTable]]:
        @contextmanager
        def silent() -> Iterator[SourceTable]:
            way = CutWay(bucket.endpoint)
            table = table_of(Bucket(way.endpoint, bucket.name), "json-contract", **{"source.monitor-interval": "1 h"})
            table.splits()
            way.cut()
            way.refusing, way.silent = False, True
            try:
                yield table
            finally:
                way.close()

        return silent


class TestLines(_RemoteContract):
    @pytest.fixture
    def table(self, bucket: Bucket) -> SourceTable:
        for part in range(2):
            bucket.put({f"json-contract/part-{part}.jsonl": lines(RECORDS[part * 12 : part * 12 + 12]) + "\n" * part})
        return table_of(bucket, "json-contract")


class TestParquet(_RemoteContract):
    @pytest.fixture
    def table(self, bucket: Bucket) -> SourceTable:
        bucket.put({"json-contract/a.jsonl": lines(RECORDS), "parquet/a.parquet": parquet(RECORDS, row_group_size=6)})
        return table_of(bucket, "parquet/*.parquet", "parquet")


def test_orc_and_packed_files(bucket: Bucket) -> None:
    import gzip

    buffer = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(RECORDS, SCHEMA.arrow), buffer)
    bucket.put({"other/a.orc": buffer.getvalue(), "other/a.json.gz": gzip.compress(lines(RECORDS).encode())})
    assert rows_of(table_of(bucket, "other/a.orc", "orc")) == ROWS
    assert rows_of(table_of(bucket, "other/a.json.gz")) == ROWS


# --- which files


_NAMES = ("a.csv", "b.csv", ".hidden", "_x", "day=1", "day=%2F2", "x y", "ä", "[z]", "sub", "_k=1")


def _tree(rng: random.Random) -> set[str]:
    paths: set[str] = set()
    for _ in range(rng.randrange(1, 14)):
        parts = [rng.choice(_NAMES) for _ in range(rng.randrange(1, 4))]
        path = "/".join(parts)
        if not any(p.startswith(path + "/") or path.startswith(p + "/") for p in paths):
            paths.add(path)
    return paths


def test_the_same_files_as_in_a_folder(bucket: Bucket, tmp_path: Path) -> None:
    """Whatever the tree and the pattern."""
    rng = random.Random(5)
    for number in range(6):
        tree = _tree(rng)
        root = tmp_path / str(number)
        for path in tree:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(path)
        bucket.put({f"tree-{number}/{path}": path for path in tree})
        patterns = ["", *sorted(tree), "*", "**", "*/*", "**/*.csv", "day=*/a*", "*.csv", "[ab].csv", "?.csv", "sub/**"]
        for pattern in patterns:
            system, path = choice.system_of({"path": f"s3://files/tree-{number}/{pattern}", **bucket.options})
            found = [e.path for e in list_files(path, may_be_missing=True, system=system)]
            here = [e.path for e in list_files(f"{root}/{pattern}".rstrip("/"), may_be_missing=True)]
            assert [f.removeprefix(f"s3://files/tree-{number}/") for f in found] == [
                f.removeprefix(f"{root}/") for f in here
            ], (sorted(tree), pattern)


def test_partitions_and_metadata(bucket: Bucket) -> None:
    bucket.put(
        {"sales/day=2024-05-01/shop=a%2Fb/x.jsonl": '{"id": 1}', "sales/day=2024-05-02/shop=c/x.jsonl": '{"id": 2}'}
    )
    schema = Schema.of(
        ("id", INT), ("day", DATE), ("shop", STRING), ("path", STRING.not_null()), ("size", BIGINT.not_null())
    )
    table = source(
        "filesystem",
        schema,
        {"path": "s3a://files/sales/", "format": "json", **bucket.options},
        partitioned_by=("day", "shop"),
        metadata=(("path", "file.path"), ("size", "file.size")),
    )
    first, second = rows_of(table)
    assert first[2:] == ("a/b", "s3://files/sales/day=2024-05-01/shop=a%2Fb/x.jsonl", 9)
    assert second[2] == "c"


def test_queries_name_files(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment says where the store is."""
    for name, value in {
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }.items():
        monkeypatch.setenv(name, value)
    bucket.put({"flights/day=2024-01-01/a.parquet": parquet(RECORDS), "named.csv": "id,name\n1,x\n"})
    with TableEnvironment.create() as environment:

        def ask(sql: str) -> list[dict[str, Any]]:
            return environment.execute_sql(sql).to_arrow().to_pylist()

        whole = "SELECT COUNT(*) AS c, SUM(id) AS s, MIN(`day`) AS d FROM 's3://files/flights'"
        assert [(r["c"], r["s"], str(r["d"])) for r in ask(whole)] == [(23, 253, "2024-01-01")]
        assert ask("SELECT id FROM read_parquet('s3://files/flights/*/*.parquet') WHERE id > 21") == [{"id": 22}]
        assert ask("SELECT * FROM read_csv('s3://files/named.csv', header => TRUE)") == [{"id": 1, "name": "x"}]
        assert [r["name"] for r in ask("DESCRIBE 's3://files/flights'")] == ["id", "name", "day"]
        environment.execute_sql("CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = 's3://files/flights')")
        assert ask("SELECT COUNT(*) AS c FROM t WHERE name IS NULL") == [{"c": 8}]


# --- what may go wrong


def test_a_store_that_is_away_for_a_while(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading goes on behind what was read: no row is lost or there twice."""
    bucket.put({"away/a.jsonl": lines([{"id": i} for i in range(3000)])})
    monkeypatch.setattr(fetched_file, "PART", 4096)
    monkeypatch.setattr("connectors.filesystem.systems.object_store.PART", 4096)
    monkeypatch.setattr("connectors.filesystem.text_reader._FIRST_BLOCK", 2000)
    way = CutWay(bucket.endpoint)
    table = table_of(Bucket(way.endpoint, bucket.name), "away")
    (split,) = table.splits()
    tries: list[float] = []

    class Pausing(Retries):
        def pauses(self, chance: Callable[[], float] = random.random) -> Iterator[float]:
            for _ in range(5):
                tries.append(0)
                way.refusing = len(tries) % 3 != 0
                yield 0.001

    monkeypatch.setattr(remote_reader, "_RETRIES", Pausing(5))
    reader = table.open(split, Context())
    way.cut()
    assert [row[0] for _, row in drain(reader)] == list(range(3000))
    assert tries
    reader.close()
    way.close()


def test_a_store_that_stays_away_is_an_error(bucket: Bucket) -> None:
    way = CutWay(bucket.endpoint)
    bucket.put({"gone/a.jsonl": lines(RECORDS)})
    watched = {"source.monitor-interval": "1 s"}
    for more in ({}, watched):
        way.refusing = False
        table = table_of(Bucket(way.endpoint, bucket.name), "gone", **more)
        (split,) = table.splits()
        way.cut()
        with pytest.raises(UnavailableError, match="E3150 s3://files/gone/a.jsonl does not answer"):
            drain(table.open(split, Context()))
        with pytest.raises(UnavailableError, match="E3150 s3://files/gone does not answer"):
            table_of(Bucket(way.endpoint, bucket.name), "gone", **more).splits()
    way.close()


def test_a_replaced_file_is_told(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched_file, "PART", 64)
    monkeypatch.setattr("connectors.filesystem.systems.object_store.PART", 64)
    bucket.put({"replaced/a.jsonl": lines(RECORDS)})
    table = table_of(bucket, "replaced")
    (split,) = table.splits()
    system: Any = table.system  # type: ignore[attr-defined]
    file, _ = system.open(split.id)
    assert file.read(10) == b'{"id": 0, '
    bucket.put({"replaced/a.jsonl": lines(RECORDS[::-1])})
    with pytest.raises(ConnectorError, match="E3105 .* has been replaced while it was read"):
        file.read()
    # A position in the old content.
    reader = table.open(split, Context())
    reader.poll(1)
    while not reader.finished:
        reader.poll(100)
    position = reader.position()
    bucket.put({"replaced/a.jsonl": lines(RECORDS[:20])})
    again = table.open(split, Context())
    again.seek(position)
    with pytest.raises(ConnectorError, match="E3105 .* is shorter than when it was last read"):
        drain(again)


def test_a_damaged_file_is_told(bucket: Bucket) -> None:
    data = parquet(RECORDS)
    bucket.put({"damaged/a.parquet": data[:-20] + b"x" * 20})
    with pytest.raises(SqlEngineError, match="E320[46] s3://files/damaged/a.parquet"):
        rows_of(table_of(bucket, "damaged", "parquet"))
    context = Context()
    table = table_of(bucket, "damaged", "parquet", **{"source.bad-files": "skip"})
    assert read_all(table, context=context) == []
    assert "a.parquet" in context.rejected[0].raw


def test_malformed_records_are_rejected_once(bucket: Bucket) -> None:
    bucket.put({"malformed/a.csv": "1,a\nx,b\n3,c\n"})
    table = table_of(bucket, "malformed", "csv", **{"csv.ignore-parse-errors": "true"})
    context = Context()
    assert [row[0] for _, row in read_all(table, 1, context)] == [1, 3]
    assert [r.raw for r in context.rejected] == ["x,b"]


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("sftp://h/x", "E1505", "cannot reach"),
        ("s3:///x", "E1505", "no bucket"),
        ("s3://b/../x", "E1505", "a dot"),
        ("s3://k:s@b/x", "E1505", "credentials"),
        ("http:///x", "E1505", "no host"),
        ("https://u:p@h/x", "E1505", "credentials"),
        ("http://169.254.169.254#@allowed/x", "E1505", "credentials"),
        ("http://169.254.169.254?x/y", "E1505", "host is none"),
        ("http://evil\\good/x", "E1505", "host is none"),
        ("s3://b?c/x", "E1505", "bucket is none"),
        ("s3://b\\c/x", "E1505", "bucket is none"),
    ],
)
def test_paths_that_cannot_be(path: str, code: str, says: str) -> None:
    with pytest.raises(OptionError, match=says) as caught:
        source("filesystem", SCHEMA, {"path": path, "format": "json"})
    assert caught.value.code == code


@pytest.mark.parametrize("endpoint", ["evil:9000/", "http://evil\\@good", "http://a@b", "ftp://h", "http://h?x", "a b"])
def test_endpoints_that_could_hide_another_host(endpoint: str) -> None:
    """What a server allows is told by the text of the option."""
    with pytest.raises(OptionError, match=r"option 's3.endpoint' cannot be"):
        choice.system_of({"path": "s3://files/x", "s3.endpoint": endpoint})


def test_options_are_flinks(bucket: Bucket) -> None:
    """With each of its prefixes, and both ways to write a key; secrets are in no text."""
    names = {"fs.s3a.access.key": "verysecret1", "s3a.secret-key": "verysecret2", "fs.s3a.endpoint": bucket.endpoint}
    system, _ = choice.system_of({"path": "s3://files/x", **names, "s3.region": "r", "s3.path.style.access": "false"})
    config = dict(system.config)  # type: ignore[attr-defined]
    assert config["access_key_id"].reveal() == "verysecret1" and config["secret_access_key"].reveal() == "verysecret2"
    assert config["virtual_hosted_style_request"] == "true"
    assert "verysecret" not in repr(system) and "verysecret" not in str(config)
    with pytest.raises(OptionError, match="E1503 .*did you mean"):
        choice.system_of({"path": "s3://files/x", "fs.s3a.acess.key": "x"})


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("gs://bucket/x", "gs://bucket"),
        ("abfs://box@account.dfs.core.windows.net/x", "abfs://box@account.dfs.core.windows.net"),
        ("abfss://box@account.dfs.core.windows.net/x", "abfss://box@account.dfs.core.windows.net"),
        ("az://box/x", "az://box"),
    ],
)
def test_stores_of_other_providers(path: str, place: str) -> None:
    """No server of theirs can be started here: it is the right store that is asked."""
    options = {"path": path, "format": "json", "azure.account-name": "account", "azure.anonymous": "true"}
    if path.startswith("gs"):
        options = {"path": path, "format": "json", "gs.anonymous": "true"}
    system: Any = source("filesystem", SCHEMA, options).system  # type: ignore[attr-defined]
    kind = {"gs": "GCSStore"}.get(place.partition(":")[0], "AzureStore")
    assert system.place == place and type(system.storage._store).__name__ == kind


# --- servers


@contextmanager
def web_server(files: dict[str, bytes], behave: Callable[[Any], bool] = lambda handler: False) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if behave(self):
                return
            data = files.get(self.path.partition("?")[0])
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_server_with_ranges_and_one_without(bucket: Bucket) -> None:
    files = {"web/a b.jsonl": lines(RECORDS), "web/a.parquet": parquet(RECORDS), "web/empty.jsonl": ""}
    bucket.put(files, ACL="public-read")
    with web_server({"/a.jsonl": lines(RECORDS).encode(), "/a.parquet": parquet(RECORDS)}) as plain:
        for path, format_ in (
            (f"{bucket.endpoint}/files/web/a b.jsonl", "json"),
            (f"{bucket.endpoint}/files/web/a.parquet?x=1", "parquet"),
            (f"{plain}/a.jsonl?signature=abc", "json"),
            (f"{plain}/a.parquet", "parquet"),
        ):
            table = source("filesystem", SCHEMA, {"path": path, "format": format_})
            assert rows_of(table) == ROWS, path
        with TableEnvironment.create() as environment:
            found = environment.execute_sql(f"SELECT COUNT(*) AS c FROM '{plain}/a.parquet?token=1'").to_arrow()
            assert found.to_pylist() == [{"c": 23}]
        empty = source("filesystem", SCHEMA, {"path": f"{bucket.endpoint}/files/web/empty.jsonl", "format": "json"})
        assert rows_of(empty) == []
        missing = source("filesystem", SCHEMA, {"path": f"{plain}/b.jsonl", "format": "json"})
        with pytest.raises(ConnectorError, match="E3101"):
            missing.splits()


def test_what_servers_do(bucket: Bucket) -> None:
    """They lead elsewhere, cut answers off, are busy, or say nothing of the size."""
    asked: list[str] = []

    def behave(handler: Any) -> bool:
        asked.append(handler.path)
        if handler.path in ("/elsewhere", "/here"):
            target = "http://169.254.169.254/latest" if handler.path == "/elsewhere" else "/a.jsonl"
            handler.send_response(302)
            handler.send_header("Location", target)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        elif handler.path == "/busy":
            handler.send_error(503)
        elif handler.path in ("/short", "/endless"):
            handler.send_response(200)
            if handler.path == "/short":
                handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"id": 1}')
        else:
            return False
        return True

    def read(path: str) -> list[Any]:
        return rows_of(source("filesystem", SCHEMA, {"path": path, "format": "json"}))

    with web_server({"/a.jsonl": lines(RECORDS).encode()}, behave) as address:
        assert read(f"{address}/here") == ROWS
        with pytest.raises(ConnectorError, match="E3104 .* it is elsewhere, at http://169.254.169.254/latest"):
            read(f"{address}/elsewhere")
        with pytest.raises(UnavailableError, match="the server says 503"):
            read(f"{address}/busy")
        assert asked.count("/busy") == 2
        with pytest.raises(UnavailableError, match="cut off"):
            read(f"{address}/short")
        with pytest.raises(ConnectorError, match="does not say how large it is"):
            read(f"{address}/endless")


# --- HDFS


def test_hdfs_is_read_through_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder stands in for a cluster, which cannot be started here."""
    monkeypatch.setattr(hadoop, "_system", lambda place: fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    (tmp_path / "in" / "day=1").mkdir(parents=True)
    (tmp_path / "in" / "day=1" / "a.jsonl").write_text(lines(RECORDS))
    (tmp_path / "in" / "_hidden").write_text("x")
    for path in ("in", "in/day=*/*", "in/day=1/a.jsonl", "**/*.jsonl"):
        assert rows_of(source("filesystem", SCHEMA, {"path": f"hdfs://nn:8020/{path}", "format": "json"})) == ROWS
    with pytest.raises(ConnectorError, match="E3101"):
        source("filesystem", SCHEMA, {"path": "hdfs://nn:8020/out", "format": "json"}).splits()


def test_hdfs_without_its_library_is_told() -> None:
    table = source("filesystem", SCHEMA, {"path": "hdfs://nn.invalid:8020/x", "format": "json"})
    with pytest.raises(OptionError, match=r"E1505 hdfs://nn.invalid:8020 cannot be reached.*libhdfs"):
        table.splits()


# --- much


def test_little_is_held_of_a_large_table(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read ahead and is not taken is bounded."""
    rows = _ROWS_OF_A_LARGE_TABLE // 3
    ids = pa.table({"id": pa.array(range(rows), pa.int32()), "name": pa.array(["x" * 50] * rows)})
    for number in range(3):
        buffer = io.BytesIO()
        pq.write_table(ids, buffer, row_group_size=20_000, use_dictionary=False)
        bucket.put({f"large/{number}.parquet": buffer.getvalue()})
    table = table_of(bucket, "large", "parquet")
    count = most = 0
    for split in table.splits():
        reader: Any = table.open(split, Context())
        while not reader.finished:
            batch = reader.poll(10_000)
            most = max(most, sum(b.rows.nbytes for b in reader.buffered))
            count += 0 if batch is None else len(batch)
        reader.close()
    assert count == 3 * rows
    assert most < 32 << 20
