"""Rows, arrays, maps and structured objects: making them, and taking fields and elements out.

The binder gives ROW, ARRAY, MAP, GET_FIELD and ITEM their types; the rules here serve whoever writes them as functions.
Structured objects (OBJECT_OF) are rows whose type has the name of a class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError, TypeMismatchError, did_you_mean
from runtime.core.rooms import Room
from runtime.core.types import VARIANT, DataType, RowField, TypeRoot, array, map_of
from runtime.expr.columns import as_array, numbers
from runtime.expr.compare import same_rows
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.library.declare import Family
from runtime.expr.library.variant import item_of
from runtime.expr.lists import built, by_row, map_built, parts_of
from runtime.expr.nullability import cast_type
from runtime.expr.typing import common_type

if TYPE_CHECKING:
    import runtime.core.class_names as _class_names
else:
    _class_names = Room("runtime.core.class_names")

__all__ = ["FAMILY"]

FAMILY = Family("construction")
_R = TypeRoot
_Typed = tuple[tuple[DataType, ...], DataType]


def _struct(columns: list[pa.Array], type_: DataType, length: int, valid: pa.Array | None = None) -> pa.Array:
    fields = [pa.field(f.name, f.type.arrow) for f in type_.fields]
    if not fields:
        return pa.array([{}] * length, pa.struct([]))
    arrays = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=None if valid is None else pc.invert(valid))


def _row_rule(types: CallTypes) -> _Typed | None:
    fields = tuple(RowField(f"EXPR${i}", t) for i, t in enumerate(types))
    return tuple(types), DataType(_R.ROW, fields=fields, nullable=False)


@FAMILY.special("ROW", _row_rule, "A row of values.", form=("ANY?",), nulls=Nulls.RULE)
@by_row
def row(context: EvalContext, length: int, *values: pa.Array) -> pa.Array:
    return _struct(list(values), context.result_type, length)


def _array_rule(types: CallTypes) -> _Typed | None:
    common = common_type(types) if types else None
    return None if common is None else (tuple(cast_type(t, common) for t in types), array(common).not_null())


def _woven(columns: list[pa.Array], length: int, type_: pa.DataType) -> pa.Array:
    """The columns' values row by row."""
    whole = pa.concat_arrays([c if c.type == type_ else c.cast(type_) for c in columns])
    return whole.take(pa.array((np.arange(length)[:, None] + np.arange(len(columns)) * length).ravel()))


@FAMILY.special(
    "ARRAY", _array_rule, "An array of values.", form=("ANY", "ANY?"), nulls=Nulls.RULE, syntax="ARRAY[a, b, ...]"
)
@by_row
def array_(context: EvalContext, length: int, *values: pa.Array) -> pa.Array:
    type_ = context.result_type.arrow
    return built(_woven(list(values), length, type_.value_type), np.full(length, len(values)), None, type_)


def _map_rule(types: CallTypes) -> _Typed | None:
    keys, values = common_type(types[::2]) if types else None, common_type(types[1::2])
    if keys is None or values is None or len(types) % 2:
        return None
    given = tuple(cast_type(t, (keys, values)[i % 2]) for i, t in enumerate(types))
    return given, map_of(keys, values).not_null()


@FAMILY.special(
    "MAP",
    _map_rule,
    "A map of keys and values; of equal keys the last counts.",
    form=("ANY", "ANY"),
    nulls=Nulls.RULE,
    can_fail=True,
    syntax="MAP[key, value, ...]",
)
@by_row
def map_(context: EvalContext, length: int, *values: pa.Array) -> pa.Array:
    type_ = context.result_type.arrow
    keys = _woven(list(values[::2]), length, type_.key_type)
    if keys.null_count:
        raise ExpressionError("a key of a map is NULL", code="E2002", hint="COALESCE the key, or leave the entry out")
    items = _woven(list(values[1::2]), length, type_.item_type)
    return map_built(keys, items, np.full(length, len(values) // 2), None, type_)


# Taking out


def _field_rule(types: CallTypes) -> _Typed | None:
    if len(types) != 2 or types[0].root is not _R.ROW:
        return None
    for field in types[0].fields:
        if field.name == types.literal(1):
            return tuple(types), field.type.with_nullable(field.type.nullable or types[0].nullable)
    return None


@FAMILY.special(
    "GET_FIELD", _field_rule, "A field of a row.", form=("ROW", "NAME"), nulls=Nulls.RULE, syntax="row.field"
)
def get_field(context: EvalContext, value: Value, name: Value) -> Value:
    wanted = name.as_py()
    index = next(i for i, f in enumerate(context.arg_types[0].fields) if f.name == wanted)
    return pc.struct_field(value, [index])


def _item_rule(types: CallTypes) -> _Typed | None:
    if len(types) != 2:
        return None
    if types[0].root is _R.ARRAY and types[1].is_integer:
        return tuple(types), types[0].children[0].with_nullable(True)
    if types[0].root is _R.MAP:
        key, value = types[0].children
        return (types[0], key.with_nullable(types[1].nullable)), value.with_nullable(True)
    if types[0].root is _R.VARIANT and (types[1].is_integer or types[1].is_character):
        return tuple(types), VARIANT
    return None


@FAMILY.special(
    "ITEM",
    _item_rule,
    "The n-th element of an array, from 1, or the value of a key of a map or object; NULL when there is none.",
    form=("ARRAY, MAP or VARIANT", "ANY"),
    nulls=Nulls.RULE,
    can_fail=True,
    syntax="array[n], map[key], variant[n], variant[key]",
)
@by_row
def item(context: EvalContext, length: int, collection: pa.Array, key: pa.Array) -> pa.Array:
    if context.arg_types[0].root is _R.VARIANT:
        return item_of(collection, key)
    parts = parts_of(collection)
    if context.arg_types[0].root is _R.MAP:
        rows = pa.array(parts.rows)
        parents = parts.parents()
        # An unknown key equals no key: keys of a map are never NULL.
        hits = np.flatnonzero(same_rows(collection.keys.take(rows), key.take(pa.array(parents))))
        found = np.full(length, -1, np.int64)
        found[parents[hits]] = parts.rows[hits]
        return collection.items.take(pa.array(found, mask=found < 0))
    index, valid = numbers(key, length)
    index = index.astype(np.int64)
    inside = (index >= 1) & (index <= parts.lengths)
    if valid is not None:
        inside &= valid
    places = np.where(inside, parts.starts() + index - 1, 0)
    at = parts.rows[places] if len(parts.rows) else places
    return collection.values.take(pa.array(at, mask=~inside))


# Structured objects


def _field_names(function: str, types: CallTypes) -> list[str] | None:
    """The names of fields that stand before their values; None where one is no text."""
    names: list[str] = []
    for index in range(1, len(types), 2):
        name = types.literal(index)
        if not isinstance(name, str):
            return None
        if name in names:
            raise TypeMismatchError(f'{function} names the field "{name}" twice', code="E1301")
        names.append(name)
    return names


def _object_rule(types: CallTypes) -> _Typed | None:
    class_name = types.literal(0) if types else None
    if len(types) % 2 != 1 or not isinstance(class_name, str):
        return None
    if not _class_names.is_class_name(class_name):
        raise TypeMismatchError(
            f"'{class_name}' is no name of a class", code="E1301", hint=_class_names.CLASS_NAME_HINT
        )
    names = _field_names("OBJECT_OF", types)
    if names is None:
        return None
    fields = tuple(RowField(n, t.materialized()) for n, t in zip(names, types[2::2], strict=True))
    return tuple(types), DataType(_R.ROW, fields=fields, words=(class_name,))


@FAMILY.special(
    "OBJECT_OF",
    _object_rule,
    "A structured object of a class name and pairs of a field's name and value.",
    form=("CLASS", "NAME", "ANY"),
    nulls=Nulls.RULE,
)
def object_of(context: EvalContext, *values: Value) -> Value:
    length = context.num_rows
    fields = [as_array(v, length, t.arrow) for v, t in zip(values[2::2], context.arg_types[2::2], strict=True)]
    return _struct(fields, context.result_type, length)


def _update_rule(types: CallTypes) -> _Typed | None:
    if len(types) % 2 != 1 or types[0].root is not _R.ROW:
        return None
    if not types[0].is_structured:
        raise TypeMismatchError(
            f"OBJECT_UPDATE takes a structured object, not a {types[0].with_nullable(True)}",
            code="E1301",
            hint="make one with OBJECT_OF or CAST(.. AS STRUCTURED<'Name', ..>)",
        )
    names = _field_names("OBJECT_UPDATE", types)
    if names is None:
        return None
    known = {f.name: f for f in types[0].fields}
    for name, new in zip(names, types[2::2], strict=True):
        if name not in known:
            raise TypeMismatchError(
                f'the object has no field "{name}"', code="E1301", hint=did_you_mean(name, list(known))
            )
        known[name] = RowField(name, new.materialized())
    return tuple(types), types[0].with_(fields=tuple(known.values()), nullable=True)


@FAMILY.special(
    "OBJECT_UPDATE",
    _update_rule,
    "A structured object with other values in some fields.",
    form=("OBJECT", "NAME", "ANY"),
    nulls=Nulls.RULE,
)
def object_update(context: EvalContext, value: Value, *changes: Value) -> Value:
    length = context.num_rows
    source = as_array(value, length)
    columns = {f.name: pc.struct_field(source, [i]) for i, f in enumerate(context.arg_types[0].fields)}
    for name, new, type_ in zip(changes[::2], changes[1::2], context.arg_types[2::2], strict=True):
        columns[name.as_py()] = as_array(new, length, type_.arrow)
    return _struct(
        list(columns.values()), context.result_type, length, source.is_valid() if source.null_count else None
    )
