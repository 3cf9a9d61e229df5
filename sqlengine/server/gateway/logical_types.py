"""Types of columns as Flink's JSON describes its logical types."""

from __future__ import annotations

from typing import Any

from runtime.core.types import STRING_LENGTH, DataType, TypeRoot

__all__ = ["logical_type"]

_R = TypeRoot
_NAMES = {
    _R.INT: "INTEGER",
    _R.TIME: "TIME_WITHOUT_TIME_ZONE",
    _R.TIMESTAMP: "TIMESTAMP_WITHOUT_TIME_ZONE",
    _R.TIMESTAMP_LTZ: "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
}
_TEXTS = frozenset({_R.VARIANT, _R.BITMAP, _R.RAW, _R.DESCRIPTOR})
"""Types that clients of Flink do not read: their values go as texts."""


def logical_type(type_: DataType) -> dict[str, Any]:
    """A type as clients of Flink read it."""
    root = type_.root
    if root in _TEXTS:
        return {"type": "VARCHAR", "nullable": type_.nullable, "length": STRING_LENGTH}
    found: dict[str, Any] = {"type": _NAMES.get(root, root.value), "nullable": type_.nullable}
    match root:
        case _R.CHAR | _R.VARCHAR | _R.BINARY | _R.VARBINARY:
            found["length"] = type_.precision
        case _R.DECIMAL:
            found |= {"precision": type_.precision, "scale": type_.scale}
        case _R.TIME | _R.TIMESTAMP | _R.TIMESTAMP_LTZ:
            found["precision"] = type_.precision
        case _R.ARRAY | _R.MULTISET:
            found["elementType"] = logical_type(type_.children[0])
        case _R.MAP:
            found |= {"keyType": logical_type(type_.children[0]), "valueType": logical_type(type_.children[1])}
        case _R.ROW:
            found["fields"] = [{"name": f.name, "fieldType": logical_type(f.type)} for f in type_.fields]
        case _R.INTERVAL_SECOND:
            found |= {
                "type": "INTERVAL_DAY_TIME",
                "precision": 2,
                "fractionalPrecision": 6,
                "resolution": "DAY_TO_SECOND",
            }
        case _R.INTERVAL_MONTH:
            found |= {"type": "INTERVAL_YEAR_MONTH", "precision": 2, "resolution": "YEAR_TO_MONTH"}
        case _:
            pass
    return found
