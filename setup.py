"""Builds the kernels in C (runtime/kernels/native), where there is a C compiler; without one the package runs on numpy
alone and gives the same answers. A wheel holds all packages below one name (sqlengine/cli/one_name.py)."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_py import build_py

_ROOT = Path(__file__).resolve().parent
_ONE_NAME = runpy.run_path(str(_ROOT / "sqlengine" / "cli" / "one_name.py"))
_BELOW: tuple[str, ...] = _ONE_NAME["BELOW"]
_IN_WHEEL = "bdist_wheel" in sys.argv
_ABOVE = "sqlengine." if _IN_WHEEL else ""
_NATIVE = Path("runtime/kernels/native")


class BuildModules(build_py):
    """Python files as a wheel has them: with the names that modules have below `sqlengine`."""

    def build_module(self, module: str, module_file: str, package: object) -> tuple[str, bool]:
        target, copied = super().build_module(module, module_file, package)
        if _IN_WHEEL:
            source = Path(module_file).read_text(encoding="utf-8")
            Path(target).write_text(_ONE_NAME["renamed"](source, _ROOT), encoding="utf-8")
        return target, copied


setup(
    packages=[
        *find_packages(include=["sqlengine", "sqlengine.*"]),
        *(f"{_ABOVE}{name}" for name in find_packages(include=[f"{package}*" for package in _BELOW])),
    ],
    package_dir={f"{_ABOVE}{package}": package for package in _BELOW},
    cmdclass={"build_py": BuildModules},
    ext_modules=[
        Extension(
            f"{_ABOVE}runtime.kernels.native._kernels",
            sources=sorted(str(path) for path in _NATIVE.glob("*.c")),
            depends=sorted(str(path) for path in _NATIVE.glob("*.h")),
            extra_compile_args=["-O3", "-std=c11"],
            optional=True,
        )
    ],
)
