"""What Spark sends to its workers: pickles, and functions by value.

What Spark itself loads is a function that travels by value, because only `sqlengine` is a name for certain where it
arrives; it loads the rest with names translated (`runtime/tasks/shipping.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from runtime.tasks.shipping import ABOVE, loads

__all__ = ["attribute", "by_value", "dumps"]

Work = Callable[[int, Iterator[Any]], Iterator[Any]]
"""What a Spark job does with a partition: of its number and what arrives for it."""


def dumps(thing: Any) -> bytes:
    """As bytes that `loads` takes in another process, functions of the user's program included."""
    from pyspark import cloudpickle

    return cloudpickle.dumps(thing)


def attribute(name: str) -> Callable[[], Any]:
    """A function that Spark sends by value and that gives `module:attribute` of the engine where it is called.

    Args:
        name: the module as a checkout or as a wheel calls it.
    """
    plain = name.removeprefix(ABOVE)

    def found() -> Any:
        # Where this runs nothing of the engine may be loaded, and only `sqlengine` is a name for certain.
        import importlib.util
        import pkgutil

        below = importlib.util.find_spec("sqlengine.runtime") is not None
        return pkgutil.resolve_name(f"sqlengine.{plain}" if below else plain)

    return found


def by_value(work: Work) -> Work:
    """The same work as a function that Spark sends by value."""
    data = dumps(work)
    load = attribute(f"{loads.__module__}:loads")

    def run(partition: int, given: Iterator[Any]) -> Iterator[Any]:
        yield from load()(data)(partition, given)

    return run
