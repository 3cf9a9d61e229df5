"""JSON that a kernel reads is what those read who know all rules, and nothing that is not plain is taken."""

from __future__ import annotations

import json
import os

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import REGISTRY

from connectors.formats import json_plain
from connectors.formats.json_decoder import JsonDecoder
from connectors.formats.json_plain import read_plain
from connectors.formats.message_rows import MessageRows
from connectors.formats.text_values import SQL, TextRules
from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    array,
    decimal,
    timestamp,
)
from runtime.spi.format import Payloads
from sqlengine.testing.connectors import every_value
from tests.unit.kernels.json_calls import object_text

CASES = int(os.environ.get("FUZZ_CASES", "12"))
SCHEMA = Schema.of(
    ("a", BIGINT), ("bb", TINYINT), ("f", FLOAT), ("text", STRING), ("d", decimal(7, 2)), ("", DOUBLE), ("é", BOOLEAN), ("s", SMALLINT)
)  # fmt: skip


def both(schema: Schema, data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[object, object]:
    """What is read with the kernel and without it."""
    found: list[object] = []
    for in_c in (True, False):
        with monkeypatch.context() as patched:
            if not in_c:
                patched.setattr(json_plain, "is_in_c", lambda: False)
            decoded = JsonDecoder(schema, TextRules("UTC", SQL)).decode(data, True)
            rows = [str(c.to_pylist()) for c in decoded.batch.columns]
            found.append((rows, decoded.rejected, decoded.consumed, decoded.whole))
    return found[0], found[1]


@pytest.mark.parametrize("seed", range(CASES))
def test_as_without_the_kernel(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    plain = ['{"a": 1, "bb": 2, "f": 0.5, "text": "x", "d": 1.25, "": 2, "é": false, "s": null, "z": {"y": [1]}}'] * 60
    texts = [object_text(rng).replace("\n", " ").encode("utf-8", "surrogatepass") for _ in range(40)]
    texts += [p.encode() for p in plain]
    data = b"\n".join(texts[i] for i in rng.permutation(len(texts))) + b"\n"
    in_c, without = both(SCHEMA, data, monkeypatch)
    assert in_c == without


def test_every_type(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, rows = every_value(_flat_names())
    format_ = REGISTRY.format("json", {})
    arrays = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(schema)]
    lines = format_.encoder(schema, "UTC").encode(ChangelogBatch.of(arrays, schema))
    in_c, without = both(schema, lines, monkeypatch)
    assert in_c == without


def _flat_names() -> list[str]:
    schema, _ = every_value()
    return [f.name for f in schema if not f.type.is_nested and f.name != "id"]


def test_what_is_left() -> None:
    schema = Schema.of(("a", INT), ("t", STRING), ("at", timestamp(3)), ("on", DATE), ("raw", BYTES))
    good = '{"a": 1, "t": "x", "at": "2024-05-01 12:00:00.5", "on": "2024-05-01", "raw": "AQI="}'
    texts = [
        good,
        '{"a": 2147483648}',
        '{"t": "a\\u0041"}',
        good.replace("05-01 ", "13-01 "),
        '{"a": 1, "a": 2}',
        good,
        "[]",
        good,
        good,
        good,
    ]
    ends = np.cumsum([len(t) for t in texts], dtype=np.int64)
    starts = ends - np.array([len(t) for t in texts])
    found = read_plain(schema, TextRules("UTC", SQL), np.frombuffer("".join(texts).encode(), np.uint8), starts, ends)
    assert found is not None
    batch, left = found
    assert left.tolist() == [False, True, True, True, True, False, True, False, False, False]
    assert batch.num_rows == 5 and batch.column(4).to_pylist() == [b"\x01\x02"] * 5
    assert read_plain(Schema.of(("l", array(INT))), TextRules(), np.empty(0, np.uint8), starts[:0], ends[:0]) is None
    assert read_plain(schema, TextRules(), np.frombuffer(b"[][]", np.uint8), np.array([0, 2]), np.array([2, 4])) is None


def test_messages_in_their_order() -> None:
    rows = MessageRows.of(
        REGISTRY.format("json", {"json.ignore-parse-errors": "true"}), SCHEMA, ["a", "text"], "UTC", 1000
    )
    texts = [json.dumps({"a": i, "text": "t"}) for i in range(8)]
    texts[2:2] = ['[{"a": 20}, {"a": 21}]', "no", '{"a": 30,\n "text": "\\u0041"}', json.dumps({"text": "x" * 2000})]
    found = rows.decode(Payloads.of(pa.array([t.encode() for t in texts], pa.large_binary())))
    assert found.batch.columns[0].to_pylist() == [0, 1, 20, 21, 30, 2, 3, 4, 5, 6, 7]
    assert found.batch.columns[1].to_pylist()[2:6] == [None, None, "A", "t"]
    assert found.message_of_row.tolist() == [0, 1, 2, 2, 4, 6, 7, 8, 9, 10, 11]
    assert [(number, row.reason[:11]) for number, row in found.rejected] == [(3, "not JSON"), (5, "longer than")]
