"""Maps of messages, in which a key may come several times: the last value counts, at the place of the first, as in Java."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from runtime.kernels.arrow_buffers import null_mask

__all__ = ["without_doubles"]


def without_doubles(array: pa.Array) -> pa.Array:
    """A column whose maps, also those within it, have each key once."""
    if not _has_maps(array.type):
        return array
    validity = None
    nulls = null_mask(array)
    if nulls is not None:
        validity = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    if pt.is_struct(array.type):
        fields = [without_doubles(array.field(i)) for i in range(array.type.num_fields)]
        return pa.Array.from_buffers(array.type, len(array), [validity], array.null_count, children=fields)
    offsets = np.asarray(array.offsets)
    if pt.is_list(array.type):
        values = without_doubles(array.values)
        return pa.Array.from_buffers(
            array.type, len(array), [validity, pa.py_buffer(offsets)], array.null_count, children=[values]
        )
    keys, items = array.keys, without_doubles(array.items)
    rows = np.repeat(np.arange(len(array)), np.diff(offsets))
    codes = pc.dictionary_encode(keys).indices.to_numpy()
    order = np.lexsort((codes, rows))
    again = (np.diff(rows[order]) == 0) & (np.diff(codes[order]) == 0)
    if again.any():
        # Within a key the order is that of the entries, so its first and its last stand at the ends of its run.
        first = order[np.concatenate([[True], ~again])]
        last = order[np.concatenate([~again, [True]])]
        by_place = np.argsort(first, kind="stable")
        first, last = first[by_place], last[by_place]
        offsets = np.searchsorted(first, offsets).astype(np.int32)
        keys, items = keys.take(pa.array(first)), items.take(pa.array(last))
    entries = pa.struct([array.type.key_field, array.type.item_field])
    within = pa.Array.from_buffers(entries, len(keys), [None], children=[keys, items])
    return pa.Array.from_buffers(
        array.type, len(array), [validity, pa.py_buffer(offsets)], array.null_count, children=[within]
    )


def _has_maps(type_: pa.DataType) -> bool:
    if pt.is_struct(type_):
        return any(_has_maps(type_.field(i).type) for i in range(type_.num_fields))
    return pt.is_map(type_) or (pt.is_list(type_) and _has_maps(type_.value_type))
