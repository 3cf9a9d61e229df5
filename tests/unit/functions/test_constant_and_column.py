"""A constant argument and a column of that value give the same, whichever way each is computed.

Constant patterns run in Arrow kernels, columns of patterns in DuckDB or once per distinct value: this is where they
could part.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from calls import column, evaluate, type_of

from runtime.expr.nodes import Literal

TEXTS = [
    "",
    "a",
    "banana",
    "  pad x ",
    "Ünïcödé ☺",
    "-1.5e1",
    "a=1,b=2",
    "xyabcyx",
    "straße",
    "a.b|c",
    "😀b😀",
    None,
    'x\n"y\\',
]
PARTS = ["a", "", "an", "x", "ö", " ", ".", "=", None, "😀", "ab", "\\", "|"]
NUMBERS = [-3, -1, 0, 1, 2, 3, 7, None]
URLS = ["http://u:p@h:80/p?q=1#r", "x", "https://h", "http://h/p?", "ftp://h:x/", None]
DOCUMENTS = ['{"a":1}', "bad", '{"a":{}}', None]
CASES: list[tuple[str, list[list[Any]]]] = [
    ("TRIM", [TEXTS]),
    ("LTRIM", [TEXTS, PARTS]),
    ("RTRIM", [TEXTS, PARTS]),
    ("BTRIM", [TEXTS, PARTS]),
    ("REPEAT", [TEXTS, [0, 1, 2, -1, None]]),
    ("SUBSTRING", [TEXTS, NUMBERS]),
    ("SUBSTRING", [TEXTS, NUMBERS, NUMBERS]),
    ("LEFT", [TEXTS, NUMBERS]),
    ("RIGHT", [TEXTS, NUMBERS]),
    ("OVERLAY", [TEXTS, PARTS, NUMBERS]),
    ("OVERLAY", [TEXTS, PARTS, NUMBERS, NUMBERS]),
    ("POSITION", [PARTS, TEXTS]),
    ("LOCATE", [PARTS, TEXTS, NUMBERS]),
    ("INSTR", [TEXTS, PARTS]),
    ("INSTR", [TEXTS, PARTS, NUMBERS]),
    ("STARTSWITH", [TEXTS, PARTS]),
    ("ENDSWITH", [TEXTS, PARTS]),
    ("REPLACE", [TEXTS, PARTS, PARTS]),
    ("TRANSLATE", [TEXTS, PARTS, PARTS]),
    ("SPLIT_INDEX", [TEXTS, PARTS, NUMBERS]),
    ("SPLIT", [TEXTS, PARTS]),
    ("LPAD", [TEXTS, [0, 1, 5, None], ["x", "ab", None]]),
    ("RPAD", [TEXTS, [0, 1, 5, None], ["x", "ab", None]]),
    ("CONCAT_WS", [PARTS, TEXTS, TEXTS]),
    ("||", [TEXTS, PARTS]),
    ("ELT", [NUMBERS, TEXTS, PARTS]),
    ("REGEXP", [TEXTS, PARTS]),
    ("REGEXP_REPLACE", [TEXTS, ["a", "", "x*", "(a)n", "(?<=a)n", None], PARTS]),
    ("REGEXP_EXTRACT", [TEXTS, ["(a)(n)?", "b", "x*", "[", "(?<=a)n", "(.)b", "a=([^,]*)"]]),
    ("REGEXP_EXTRACT", [TEXTS, ["(a)(n)?", "b(q)?", "(,|^)b=([^,]*)"], [0, 1, 2, None]]),
    ("REGEXP_COUNT", [TEXTS, PARTS]),
    ("REGEXP_INSTR", [TEXTS, PARTS]),
    ("REGEXP_EXTRACT_ALL", [TEXTS, ["(a)", "b", "("]]),
    ("PARSE_URL", [URLS, ["HOST", "QUERY", "host", None]]),
    ("DATE_FORMAT", [["2024-05-07 13:04:05", "bad", None], ["yyyyMMdd", "EEE", None]]),
    ("TO_DATE", [["2024-05-07", "20240507", "bad", None], ["yyyyMMdd", "yyyy-MM-dd", None]]),
    ("TO_TIMESTAMP", [["2024-05-07", "20240507", "bad", None], ["yyyyMMdd", "yyyy-MM-dd", None]]),
    ("UNIX_TIMESTAMP", [["2024-05-07 1:2:3", "20240507", "bad", None], ["yyyyMMdd", "yyyy-MM-dd HH:mm:ss", None]]),
    ("FROM_UNIXTIME", [[0, -5, 1700000000, None], ["yyyy", "HH:mm z", None]]),
    (
        "CONVERT_TZ",
        [["2024-03-31 01:30:00", "bad", None], ["UTC", "Europe/Berlin", None], ["Asia/Tokyo", "GMT+2", None]],
    ),
    ("STR_TO_MAP", [["a=1,b=2", "x", "", None], [",", "="], ["=", ","]]),
    ("JSON_VALUE", [DOCUMENTS, ["$.a", "lax $.b", "$", "bad[", None]]),
    ("JSON_QUERY", [DOCUMENTS, ["$.a", "lax $.b", "$", None]]),
]


@pytest.mark.parametrize(("name", "domains"), CASES, ids=[f"{n}-{len(d)}" for n, d in CASES])
def test_constants_and_columns_agree(name: str, domains: list[list[Any]]) -> None:
    types = [type_of(d) for d in domains]
    rows = list(itertools.product(*domains))
    random.Random(7).shuffle(rows)
    rows = rows[:150]
    expected = evaluate(
        name, *(column(*values, type_=t) for values, t in zip(zip(*rows, strict=True), types, strict=True))
    )
    for constant in range(1, 1 << len(domains)):
        for row, wanted in zip(rows[:12], expected, strict=False):
            args = [
                Literal(v, t.with_nullable(v is None)) if constant >> i & 1 else column(v, None, type_=t)
                for i, (v, t) in enumerate(zip(row, types, strict=True))
            ]
            assert evaluate(name, *args)[0] == wanted, (row, constant)
