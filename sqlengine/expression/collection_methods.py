"""Functions of times, arrays, maps and rows as methods of expressions, with the names of PyFlink.

Each is one SQL function or operator; its meaning is that of the SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlengine.expression.method_parts import MethodParts, given

if TYPE_CHECKING:
    from sqlengine.expression.expression import Expression

__all__ = ["CollectionMethods"]


class CollectionMethods(MethodParts):
    """Methods of texts that are times, and of collections."""

    __slots__ = ()

    # Times

    @property
    def to_date(self) -> Expression:
        """TO_DATE: a text as a DATE."""
        return self._property("TO_DATE", "to_date")

    @property
    def to_timestamp(self) -> Expression:
        """TO_TIMESTAMP: a text as a TIMESTAMP."""
        return self._property("TO_TIMESTAMP", "to_timestamp")

    @property
    def to_time(self) -> Expression:
        """A text as a TIME."""
        return self.cast("TIME")

    # Collections

    @property
    def cardinality(self) -> Expression:
        """CARDINALITY: the number of elements."""
        return self._property("CARDINALITY", "cardinality")

    @property
    def element(self) -> Expression:
        """ELEMENT: the only element of an array."""
        return self._property("ELEMENT", "element")

    @property
    def map_keys(self) -> Expression:
        """MAP_KEYS: the keys of a map as an array."""
        return self._property("MAP_KEYS", "map_keys")

    @property
    def map_values(self) -> Expression:
        """MAP_VALUES: the values of a map as an array."""
        return self._property("MAP_VALUES", "map_values")

    @property
    def map_entries(self) -> Expression:
        """MAP_ENTRIES: the entries of a map as an array of rows."""
        return self._property("MAP_ENTRIES", "map_entries")

    def map_union(self, *maps: Any) -> Expression:
        """MAP_UNION: a map with the entries of others put over its own."""
        return self._call("MAP_UNION", self, *maps, method="map_union")

    def array_contains(self, needle: Any) -> Expression:
        """ARRAY_CONTAINS: whether an array holds a value."""
        return self._call("ARRAY_CONTAINS", self, needle, method="array_contains")

    def array_distinct(self) -> Expression:
        """ARRAY_DISTINCT: an array without repetitions."""
        return self._call("ARRAY_DISTINCT", self, method="array_distinct")

    def array_concat(self, *arrays: Any) -> Expression:
        """ARRAY_CONCAT: arrays one after another."""
        return self._call("ARRAY_CONCAT", self, *arrays, method="array_concat")

    def array_append(self, addition: Any) -> Expression:
        """ARRAY_APPEND: an array with a further element at its end."""
        return self._call("ARRAY_APPEND", self, addition, method="array_append")

    def array_prepend(self, addition: Any) -> Expression:
        """ARRAY_PREPEND: an array with a further element at its start."""
        return self._call("ARRAY_PREPEND", self, addition, method="array_prepend")

    def array_position(self, needle: Any) -> Expression:
        """ARRAY_POSITION: where a value first is in an array, counted from 1; 0 when it is not."""
        return self._call("ARRAY_POSITION", self, needle, method="array_position")

    def array_remove(self, needle: Any) -> Expression:
        """ARRAY_REMOVE: an array without a value."""
        return self._call("ARRAY_REMOVE", self, needle, method="array_remove")

    def array_reverse(self) -> Expression:
        """ARRAY_REVERSE: an array backwards."""
        return self._call("ARRAY_REVERSE", self, method="array_reverse")

    def array_slice(self, start_offset: Any, end_offset: Any = None) -> Expression:
        """ARRAY_SLICE: the elements from a position to another, both included, counted from 1."""
        return self._call("ARRAY_SLICE", self, start_offset, *given(end_offset), method="array_slice")

    def array_sort(self, ascending_order: Any = None, null_first: Any = None) -> Expression:
        """ARRAY_SORT: an array in order; NULLs come first where it ascends, unless said otherwise."""
        both = () if null_first is None else (null_first,)
        order = () if ascending_order is None and not both else (True if ascending_order is None else ascending_order,)
        return self._call("ARRAY_SORT", self, *order, *both, method="array_sort")

    def array_union(self, array: Any) -> Expression:
        """ARRAY_UNION: the different elements of two arrays."""
        return self._call("ARRAY_UNION", self, array, method="array_union")

    def array_except(self, array: Any) -> Expression:
        """ARRAY_EXCEPT: the elements that are not in another array."""
        return self._call("ARRAY_EXCEPT", self, array, method="array_except")

    def array_intersect(self, array: Any) -> Expression:
        """ARRAY_INTERSECT: the elements that are in another array, too."""
        return self._call("ARRAY_INTERSECT", self, array, method="array_intersect")

    def array_max(self) -> Expression:
        """ARRAY_MAX: the greatest element."""
        return self._call("ARRAY_MAX", self, method="array_max")

    def array_min(self) -> Expression:
        """ARRAY_MIN: the least element."""
        return self._call("ARRAY_MIN", self, method="array_min")

    def array_join(self, delimiter: Any, null_replacement: Any = None) -> Expression:
        """ARRAY_JOIN: the elements as one text with a delimiter between them."""
        return self._call("ARRAY_JOIN", self, delimiter, *given(null_replacement), method="array_join")

    # Rows

    @property
    def flatten(self) -> Expression:
        """All fields of a row as columns of their own, in `select`."""
        return self._form("flatten", ["(", self, ").*"])

    def object_update(self, *kv: Any) -> Expression:
        """OBJECT_UPDATE: a structured object with some fields changed; names and values in turn."""
        return self._call("OBJECT_UPDATE", self, *kv, method="object_update")
