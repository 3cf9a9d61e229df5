"""Files of models: where they are, and what is loaded of them once."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from typing import Any

from connectors.filesystem.files import local_path
from runtime.core.errors import ConnectorError
from runtime.core.options import text_option

__all__ = ["MODEL_PATH", "library", "loaded", "model_file"]

MODEL_PATH = text_option("path", "", "the file of the model")

_LIMIT = 16
"""So many models are kept loaded."""
_loaded: dict[tuple[object, ...], Any] = {}
_lock = threading.Lock()


def model_file(path: str) -> str:
    """The path of a file that is there. Raises ConnectorError E3140."""
    place = local_path(path)
    if not os.path.isfile(place):
        raise ConnectorError(
            f"there is no file {path} of a model", code="E3140", hint="check the option 'path' of the model"
        )
    return place


def loaded(place: str, how: tuple[object, ...], load: Callable[[], Any]) -> Any:
    """What `load` gives, of a file that has not changed since it was last loaded in that way; ConnectorError E3140 for a
    file that it cannot read."""
    status = os.stat(place)
    key = (place, status.st_mtime_ns, status.st_size, *how)
    with _lock:
        if key not in _loaded:
            while len(_loaded) >= _LIMIT:
                del _loaded[next(iter(_loaded))]
            try:
                _loaded[key] = load()
            except ConnectorError:
                raise
            except Exception as error:
                lines = str(error).strip().splitlines() or [type(error).__name__]
                raise ConnectorError(
                    f"cannot load the model {place}: {lines[0]}",
                    code="E3140",
                    hint="is the file complete, and written by a version of its library that is read here?",
                ) from error
        return _loaded[key]


def library(name: str, extra: str) -> Any:
    """A library that a provider needs. Raises ConnectorError E3142 where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConnectorError(
            f"the Python package {name.partition('.')[0]} is not installed",
            code="E3142",
            hint=f"pip install 'sqlengine[{extra}]'",
        ) from error
