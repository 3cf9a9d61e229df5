"""What goes from one process to another, whatever name the engine has there.

In a checkout its packages stand side by side (`runtime.tasks.task`), in a wheel below one name
(`sqlengine.runtime.tasks.task`), and the driver's may differ from the executors'. A pickle says names, so names are
translated where one is loaded.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from typing import Any

__all__ = ["ABOVE", "here", "loads"]

ABOVE = "sqlengine."
_OURS = ("planner", "runtime", "connectors")
_PREFIX = __name__[: __name__.index("runtime.")]


def here(module: str) -> str:
    """The name in this process of a module that has another one where the engine is laid out otherwise."""
    plain = module.removeprefix(ABOVE)
    return _PREFIX + plain if plain.partition(".")[0] in _OURS else module


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(here(module), name)


def loads(data: Any, buffers: Iterable[Any] = ()) -> Any:
    """What a process of this job has pickled. Only for bytes of the job's own processes: a pickle can run code.

    Args:
        buffers: what was pickled beside the bytes, in order.
    """
    return _Unpickler(io.BytesIO(data), buffers=buffers).load()
