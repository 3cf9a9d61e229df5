"""Items of ORDER BY: of a query, of a window, of the rows that an aggregate takes in."""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import TypeMismatchError, with_article
from runtime.core.types import DataType, TypeRoot
from runtime.expr.nodes import Expr, SortKey
from sqlengine.parse.spans import span_of

__all__ = ["check_order", "sort_key"]


def _unordered(type_: DataType) -> DataType | None:
    """The type, or the one inside a ROW or ARRAY, whose values have no order."""
    if type_.root.value in ("MAP", "MULTISET", "BITMAP", "VARIANT", "RAW") or type_.is_structured:
        return type_
    inside = [f.type for f in type_.fields] if type_.root is TypeRoot.ROW else list(type_.children)
    return next((t for each in inside if (t := _unordered(each)) is not None), None)


def check_order(value: Expr, item: exp.Ordered) -> None:
    """Raise TypeMismatchError E1302 for a key of ORDER BY whose values have no order: maps, multisets, bitmaps, variants,
    structured types, RAW. Arrays are compared element by element, as rows are field by field."""
    unordered = _unordered(value.type)
    if unordered is not None:
        raise TypeMismatchError(
            f"rows cannot be ordered by {with_article('structured type' if unordered.is_structured else unordered.root.value)}",
            code="E1302",
            span=span_of(item),
            hint="order by what it holds: m['key'] of a MAP, CARDINALITY(m), BITMAP_CARDINALITY(b),"
            " CAST(v['key'] AS INT) of a VARIANT, o.name of a structured type, CAST(r AS BYTES) of RAW",
        )


def sort_key(expr: Expr, item: exp.Ordered) -> SortKey:
    """An item of ORDER BY: NULLs are the smallest values unless it says otherwise."""
    check_order(expr, item)
    descending = bool(item.args.get("desc"))
    nulls_first = item.args.get("nulls_first")
    if nulls_first is None:
        nulls_first = not descending
    return SortKey(expr, descending, nulls_last=not nulls_first)
