"""Lists and maps in accumulators, under the names that PyFlink gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["ListView", "MapView"]


class ListView(list[Any]):
    """A list of an accumulator: `get` gives its values, `add` and `add_all` put some behind them."""

    def get(self) -> list[Any]:
        """The values."""
        return self

    def add(self, value: Any) -> None:
        """A further value."""
        self.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Further values."""
        self.extend(values)


class MapView(dict[Any, Any]):
    """A map of an accumulator, with the methods of a dict and of PyFlink."""

    def put(self, key: Any, value: Any) -> None:
        """The value of a key from now on."""
        self[key] = value

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """The values of several keys from now on."""
        self.update(dict_value)

    def remove(self, key: Any) -> None:
        """Forget a key; harmless for one that is none."""
        self.pop(key, None)

    def contains(self, key: Any) -> bool:
        """Whether a key is there."""
        return key in self

    def is_empty(self) -> bool:
        """Whether no key is there."""
        return not self
