"""Builds the kernels in C (runtime/kernels/native), where there is a C compiler; without one the package runs on numpy
alone and gives the same answers."""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup

_FOLDER = Path("runtime/kernels/native")

setup(
    ext_modules=[
        Extension(
            "runtime.kernels.native._kernels",
            sources=sorted(str(path) for path in _FOLDER.glob("*.c")),
            depends=sorted(str(path) for path in _FOLDER.glob("*.h")),
            extra_compile_args=["-O3", "-std=c11"],
            optional=True,
        )
    ]
)
