"""Records of `.slt` files that mean nothing are refused, with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.spi import FormatError
from sqlengine.testing.slt import parse_slt


@pytest.mark.parametrize("head", ["query", "query nosort", "query rowsort", "query text", "table t", "table t nosort"])
def test_ways_to_compare_rows(head: str) -> None:
    (record,) = parse_slt(
        f"{head}\nSELECT 1\n----\n1\n" if head.startswith("query") else f"{head}\n----\n1\n", Path("a.slt")
    ).records
    assert record.expected == ["1"]


@pytest.mark.parametrize(
    "record",
    ["query ordered\nSELECT 1", "query nosrot\nSELECT 1", "query text nosort\nSELECT 1", "table t sorted"],
)
def test_another_word_would_compare_without_order_in_silence(record: str) -> None:
    with pytest.raises(FormatError, match=r"is no way to compare rows.*write nosort where the order counts") as refused:
        parse_slt(f"{record}\n----\n1\n", Path("a.slt"))
    assert refused.value.code == "E3301"
