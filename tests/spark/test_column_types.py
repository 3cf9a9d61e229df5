"""Types of a DataFrame's columns, from its schema alone: no Spark runs here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runtime.core.errors import SparkError, SqlEngineError, TypeMismatchError
from runtime.core.types import STRING, DataType
from runtime.spark.column_types import columns_of


class Frame:
    """What `columns_of` asks a DataFrame."""

    def __init__(self, *fields: dict[str, Any], sensitive: bool = False) -> None:
        self.schema = SimpleNamespace(jsonValue=lambda: {"fields": fields})
        conf = SimpleNamespace(get=lambda key, default: str(sensitive))
        self.sparkSession = SimpleNamespace(conf=conf)
        self.selected: tuple[str, ...] = ()

    def selectExpr(self, *expressions: str) -> Frame:
        self.selected = expressions
        return self


def column(kind: Any, name: str = "c", **notes: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": False, "metadata": notes}


def array_of(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def struct_of(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [column(kind, name)]}


@pytest.mark.parametrize(
    ("kind", "notes", "expected"),
    [
        ("long", {}, "BIGINT"),
        ("byte", {}, "TINYINT"),
        ("decimal(38,18)", {}, "DECIMAL(38, 18)"),
        ("timestamp", {}, "TIMESTAMP_LTZ(6)"),
        ("timestamp_ntz", {}, "TIMESTAMP(6)"),
        ("time(6)", {}, "TIME(3)"),
        ("time(0)", {}, "TIME(0)"),
        ("string", {"__CHAR_VARCHAR_TYPE_STRING": "char(4)"}, "CHAR(4)"),
        ("string", {"__CHAR_VARCHAR_TYPE_STRING": "varchar(9)"}, "VARCHAR(9)"),
        ("interval day to second", {}, "INTERVAL DAY(6) TO SECOND(3)"),
        (array_of(struct_of("a", "binary")), {}, "ARRAY<ROW<`a` BYTES>>"),
        ({"type": "map", "keyType": "string", "valueType": array_of("date")}, {}, "MAP<STRING, ARRAY<DATE>>"),
        ({"type": "udt", "sqlType": struct_of("v", "double")}, {}, "ROW<`v` DOUBLE>"),
    ],
)
def test_types_with_a_twin(kind: Any, notes: dict[str, Any], expected: str) -> None:
    frame = Frame(column(kind, **notes))
    found = columns_of(frame)
    assert [(name, str(type_)) for name, type_ in found.types] == [("c", expected)]
    assert frame.selected == ()


def test_what_arrow_cannot_carry_comes_in_another_form() -> None:
    frame = Frame(column("variant", "v`v"), column("interval year", "y"), column("integer", "i"))
    found = columns_of(frame)
    assert [str(type_) for _, type_ in found.types] == ["VARIANT", "INTERVAL YEAR(4) TO MONTH", "INT"]
    assert frame.selected == (
        "to_json(`v``v`) AS `v``v`",
        "CAST(CAST(`y` AS INTERVAL MONTH) AS INT) AS `y`",
        "`i` AS `i`",
    )


@pytest.mark.parametrize(
    ("kind", "notes", "told"),
    [
        ("interval", {}, 'E3609 the column "c" of the DataFrame is INTERVAL, a type'),
        (struct_of("i", "interval year"), {}, 'E3609 "i" of the column "c" of the DataFrame is INTERVAL YEAR, a type'),
        (array_of("variant"), {}, 'E3609 "element" of the column "c" of the DataFrame is VARIANT'),
        ("geometry(4326)", {}, "is GEOMETRY"),
        ("string", {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}, "is STRING COLLATE UTF8_LCASE"),
        (array_of("string"), {"__COLLATIONS": {"c.element": "icu.UNICODE"}}, "is a type with collations"),
        ("decimal(2,-3)", {}, "is DECIMAL"),
        (array_of("void"), {}, 'E1306 "element" of the column "c" of the DataFrame is NULL without a type'),
        ("void", {}, 'E1306 the column "c" of the DataFrame is NULL without a type'),
    ],
)
def test_types_without_one_are_an_error_unless_declared_as_text(kind: Any, notes: dict[str, Any], told: str) -> None:
    with pytest.raises(SqlEngineError) as error:
        columns_of(Frame(column(kind, **notes)))
    assert told in str(error.value)
    frame = Frame(column(kind, **notes))
    assert columns_of(frame, {"c": STRING}).types == (("c", STRING),)
    assert frame.selected == ("CAST(`c` AS STRING) AS `c`",)


def test_columns_of_one_name() -> None:
    columns = column("long", "id"), column("long", "ID")
    with pytest.raises(SparkError, match='E3610 the DataFrame has more than one column "id"'):
        columns_of(Frame(*columns))
    assert len(columns_of(Frame(*columns, sensitive=True)).types) == 2
    with pytest.raises(TypeMismatchError):
        columns_of(Frame(column("void")), {"other": DataType(STRING.root, 3)})
