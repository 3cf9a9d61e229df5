"""How many digits the values of exact numeric types have."""

from __future__ import annotations

from runtime.core.types import DataType, TypeRoot

__all__ = ["as_decimal", "whole_digits"]

_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}


def as_decimal(type_: DataType) -> DataType:
    """An exact numeric type as the DECIMAL that holds all its values."""
    if type_.root is TypeRoot.DECIMAL:
        return type_
    return DataType(TypeRoot.DECIMAL, _INTEGER_DIGITS[type_.root], 0, nullable=type_.nullable)


def whole_digits(type_: DataType) -> int | None:
    """The most digits that a value of an exact numeric type has before the point; None for other types."""
    if type_.root is TypeRoot.DECIMAL:
        return type_.precision - type_.scale
    return _INTEGER_DIGITS.get(type_.root)
