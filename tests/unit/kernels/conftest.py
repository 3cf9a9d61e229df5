"""Every test of the kernels runs twice: with those in C, and with their twins in numpy."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from runtime import kernels as engine
from runtime.kernels import native


def handles() -> list[tuple[object, str]]:
    """The modules that call kernels in C, and the names under which they do."""
    modules = [importlib.import_module(f"{engine.__name__}.{m.name}") for m in pkgutil.iter_modules(engine.__path__)]
    return [(m, name) for m in modules for name, value in vars(m).items() if isinstance(value, native.Kernel)]


@pytest.fixture(autouse=True, params=["c", "numpy"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which kernels the test runs with."""
    if request.param == "numpy":
        for module, name in handles():
            monkeypatch.setattr(module, name, None)
    else:
        assert handles(), "the kernels in C are not built, or from other sources: `make setup`"
    return request.param
