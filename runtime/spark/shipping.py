"""What goes from one process to another, whatever name the engine has there.

In a checkout its packages stand side by side (`runtime.spark.task`), in a wheel below one name
(`sqlengine.runtime.spark.task`), and the driver's may differ from the executors'. A pickle says names, so names are
translated where one is loaded, and what Spark itself loads is a function that travels by value.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["attribute", "by_value", "dumps", "here", "loads"]

_OURS = ("planner", "runtime", "connectors")
_ABOVE = "sqlengine."
_PREFIX = __name__[: __name__.index("runtime.")]

Work = Callable[[int, Iterator[Any]], Iterator[Any]]
"""What a Spark job does with a partition: of its number and what arrives for it."""


def here(module: str) -> str:
    """The name in this process of a module that has another one where the engine is laid out otherwise."""
    plain = module.removeprefix(_ABOVE)
    return _PREFIX + plain if plain.partition(".")[0] in _OURS else module


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(here(module), name)


def loads(data: bytes) -> Any:
    """What a process of this job has pickled, be it by `dumps` or by pickle. Only for bytes of the job's own
    processes: a pickle can run code."""
    return _Unpickler(io.BytesIO(data)).load()


def dumps(thing: Any) -> bytes:
    """As bytes that `loads` takes in another process, functions of the user's program included."""
    from pyspark import cloudpickle

    return cloudpickle.dumps(thing)


def attribute(name: str) -> Callable[[], Any]:
    """A function that Spark sends by value and that gives `module:attribute` of the engine where it is called.

    Args:
        name: the module as a checkout or as a wheel calls it.
    """
    plain = name.removeprefix(_ABOVE)

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
    load = attribute(f"{__name__}:loads")

    def run(partition: int, given: Iterator[Any]) -> Iterator[Any]:
        yield from load()(data)(partition, given)

    return run
