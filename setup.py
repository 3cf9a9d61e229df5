"""Builds the kernels in C (runtime/kernels/native), where there is a C compiler; without one the package runs on numpy
alone and gives the same answers. A wheel holds all packages below one name (sqlengine/cli/one_name.py)."""

from __future__ import annotations

import hashlib
import os
import runpy
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

_ROOT = Path(__file__).resolve().parent
_ONE_NAME = runpy.run_path(str(_ROOT / "sqlengine" / "cli" / "one_name.py"))
_BELOW: tuple[str, ...] = _ONE_NAME["BELOW"]
_IN_WHEEL = "bdist_wheel" in sys.argv
_ABOVE = "sqlengine." if _IN_WHEEL else ""
_NATIVE = Path("runtime/kernels/native")
_SOURCES = sorted(_NATIVE.glob("*.c"))
_HEADERS = sorted(_NATIVE.glob("*.h"))


def fingerprint() -> int:
    """A number of 62 bits for these sources, whatever their line ends; `runtime/kernels/native/abi.py` has it, too."""
    hashed = hashlib.sha256()
    for path in [*_SOURCES, *_HEADERS]:
        hashed.update(path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return int.from_bytes(hashed.digest()[:8], "big") >> 2


class BuildModules(build_py):
    """Python files as a wheel has them: with the names that modules have below `sqlengine`."""

    def build_module(self, module: str, module_file: str, package: object) -> tuple[str, bool]:
        target, copied = super().build_module(module, module_file, package)
        if _IN_WHEEL:
            source = Path(module_file).read_text(encoding="utf-8")
            Path(target).write_text(_ONE_NAME["renamed"](source, _ROOT), encoding="utf-8")
        return target, copied


class BuildKernels(build_ext):
    """A shared library that knows nothing of Python, so that one serves every Python of the platform."""

    def get_ext_filename(self, fullname: str) -> str:
        return os.path.join(*fullname.split(".")) + (".dll" if os.name == "nt" else ".so")

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []

    def get_libraries(self, ext: Extension) -> list[str]:
        return ext.libraries

    def build_extension(self, ext: Extension) -> None:
        microsoft = self.compiler.compiler_type == "msvc"
        ext.extra_compile_args = ["/O2", "/std:c11"] if microsoft else ["-O3", "-std=c11", "-fvisibility=hidden"]
        super().build_extension(ext)


class PlatformWheel(bdist_wheel):
    """A wheel for a platform, and any Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    packages=[
        *find_packages(include=["sqlengine", "sqlengine.*"]),
        *(f"{_ABOVE}{name}" for name in find_packages(include=[f"{package}*" for package in _BELOW])),
    ],
    package_dir={f"{_ABOVE}{package}": package for package in _BELOW},
    cmdclass={"build_py": BuildModules, "build_ext": BuildKernels, "bdist_wheel": PlatformWheel},
    ext_modules=[
        Extension(
            f"{_ABOVE}runtime.kernels.native._kernels",
            sources=[str(path) for path in _SOURCES],
            depends=[str(path) for path in _HEADERS],
            define_macros=[("SQLENGINE_ABI", f"{fingerprint()}LL")],
            optional=True,
        )
    ],
)
