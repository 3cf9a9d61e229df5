"""sqlengine: streaming SQL in a Python process.

from sqlengine import TableEnvironment
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import itertools
import pathlib
import signal
import sys
from typing import TYPE_CHECKING, Any


def _is_command_line() -> bool:
    """Whether the process is `sqlengine ..` or `python -m sqlengine ..`."""
    first = sys.argv[0] if sys.argv else ""
    if first == "-m":  # as long as the package of the module is loaded
        return any(pair == ("-m", "sqlengine") for pair in itertools.pairwise(sys.orig_argv))
    return pathlib.PurePath(first).stem == "sqlengine"


if _is_command_line():
    # The command line is loading: until it takes over, Ctrl-C ends it at once, without a stack trace, and nobody looks
    # for garbage among what is loaded, a sixth of the time that loading takes.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()

_HERE = pathlib.Path(__file__).resolve().parent.parent
# In a checkout three packages stand beside this one; in a wheel they are below it, and no other can be taken for them.
for _package in () if importlib.util.find_spec("sqlengine.runtime") else ("planner", "runtime", "connectors"):
    _spec = importlib.util.find_spec(_package)
    _found = (
        pathlib.Path(_spec.origin).resolve().parent.parent if _spec is not None and _spec.origin is not None else None
    )
    if _found != _HERE:
        raise ImportError(
            f"sqlengine needs its own package '{_package}' in {_HERE}, but Python finds "
            + (f"another one in {_found}" if _found else "none")
            + "; rename or move what shadows it, or start Python elsewhere"
        )

if TYPE_CHECKING:
    from sqlengine.public import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The engine is loaded when something of it is asked for: the command line and the pytest plugin need little of it,
    and a run of pytest without SQL nothing."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    public = importlib.import_module("sqlengine.public")
    if not hasattr(public, name):
        raise AttributeError(f"module 'sqlengine' has no attribute {name!r}")
    value = globals()[name] = getattr(public, name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__getattr__("__all__")]
