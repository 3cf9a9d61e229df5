"""The built-in functions: one file per family, listed here by hand."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.expr.function import AnyFunction, FunctionRegistry
from runtime.expr.library import (
    aggregate,
    arithmetic,
    auxiliary,
    bitmap,
    collection,
    collection_maps,
    comparison,
    conditional,
    construct,
    conversion,
    hash,
    json_query,
    json_values,
    jsonb,
    jsonb_path,
    logical,
    math,
    postgres,
    postgres_arrays,
    postgres_bytes,
    postgres_numbers,
    postgres_texts,
    randomness,
    regex,
    rounding,
    sequence,
    series,
    string,
    string_encoding,
    string_format,
    string_search,
    temporal_arithmetic,
    temporal_current,
    temporal_fields,
    temporal_rounding,
    temporal_text,
    url,
    variant,
    vector,
    window,
)

__all__ = ["builtin_functions"]

_FAMILIES: tuple[Sequence[AnyFunction], ...] = (
    logical.FAMILY.functions,
    comparison.FAMILY.functions,
    arithmetic.FAMILY.functions,
    math.FAMILY.functions,
    rounding.FAMILY.functions,
    randomness.FAMILY.functions,
    conditional.FAMILY.functions,
    conversion.FAMILY.functions,
    string.FAMILY.functions,
    string_search.FAMILY.functions,
    string_encoding.FAMILY.functions,
    string_format.FAMILY.functions,
    regex.FAMILY.functions,
    temporal_fields.FAMILY.functions,
    temporal_rounding.FAMILY.functions,
    temporal_current.FAMILY.functions,
    temporal_arithmetic.FAMILY.functions,
    temporal_text.FAMILY.functions,
    url.FAMILY.functions,
    hash.FAMILY.functions,
    construct.FAMILY.functions,
    collection.FAMILY.functions,
    collection_maps.FAMILY.functions,
    series.FAMILY.functions,
    sequence.FAMILY.functions,
    bitmap.FAMILY.functions,
    variant.FAMILY.functions,
    vector.FAMILY.functions,
    json_query.FAMILY.functions,
    json_values.FAMILY.functions,
    jsonb.FAMILY.functions,
    jsonb_path.FAMILY.functions,
    auxiliary.FAMILY.functions,
    postgres.FAMILY.functions,
    postgres_numbers.FAMILY.functions,
    postgres_arrays.FAMILY.functions,
    postgres_texts.FAMILY.functions,
    postgres_bytes.FAMILY.functions,
    aggregate.FUNCTIONS,
    window.FUNCTIONS,
)


def builtin_functions() -> FunctionRegistry:
    """A registry of all built-in functions; the caller may register more."""
    registry = FunctionRegistry()
    for functions in _FAMILIES:
        for function in functions:
            registry.register(function)
    return registry
