"""A library of other sources is never called, and what is built fits every Python of a platform."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runtime.kernels import native
from runtime.kernels.native.abi import ABI

FOLDER = Path(native.__file__).parent
ROOT = FOLDER.parents[2]
LIBRARY = FOLDER / "_kernels.so"


@pytest.fixture(autouse=True)
def kernels() -> str:
    """Once is enough here."""
    return "c"


def test_the_number_is_that_of_the_sources() -> None:
    hashed = hashlib.sha256()
    for path in [*sorted(FOLDER.glob("*.c")), *sorted(FOLDER.glob("*.h"))]:
        hashed.update(path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    number = int.from_bytes(hashed.digest()[:8], "big") >> 2
    assert number == ABI, f"the C sources changed: write ABI = {number} into {FOLDER / 'abi.py'}, and build them again"


def asked(kernels: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a fresh Python says that is given a package whose library is this one."""
    program = "from runtime.kernels import native, hashing; import numpy as np; "
    program += "print(native._library is not None, hashing.hash_words(np.ones((2, 1), np.uint64))[0])"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=kernels,
        env={**os.environ, "PYTHONPATH": str(kernels), "SQLENGINE_NATIVE": "", **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package without a library."""
    shutil.copytree(ROOT / "runtime", tmp_path / "runtime", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return tmp_path


def built(folder: Path, source: str) -> Path:
    """The library of some C."""
    (folder / "other.c").write_text(source)
    path = folder / "runtime" / "kernels" / "native" / "_kernels.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, folder / "other.c"], check=True)
    return path


@pytest.mark.parametrize("number", [None, 1, ABI + 1])
def test_a_library_of_other_sources_is_left_alone(package: Path, number: int | None) -> None:
    # Its kernel has the name of one of ours, and would end the process.
    source = "#include <stdlib.h>\nlong long sqlengine_hash_words(void) { abort(); }\n"
    if number is not None:
        source += f"long long sqlengine_abi(void) {{ return {number}LL; }}\n"
    path = built(package, source)
    found = asked(package)
    assert found.returncode == 0 and found.stdout.split()[0] == "False", found.stderr
    assert found.stdout.split()[1] == asked(ROOT).stdout.split()[1]
    assert found.stderr.count("built from other sources (_kernels.so)") == 1
    assert "setup.py build_ext --inplace" in found.stderr
    refused = asked(ROOT, SQLENGINE_KERNELS=str(path))
    assert refused.returncode != 0 and "SQLENGINE_KERNELS names no library of these kernels" in refused.stderr


def test_a_file_that_is_no_library_is_told(package: Path) -> None:
    (package / "runtime" / "kernels" / "native" / "_kernels.so").write_bytes(b"not a library")
    found = asked(package)
    assert found.returncode == 0 and found.stdout.split()[0] == "False"
    assert "the kernels in C cannot be loaded" in found.stderr


def test_without_a_library_nothing_is_said(package: Path) -> None:
    found = asked(package)
    assert (found.returncode, found.stdout.split()[0], found.stderr) == (0, "False", "")


def test_the_library_needs_no_python() -> None:
    library = ctypes.CDLL(str(LIBRARY))
    library.sqlengine_abi.restype = ctypes.c_int64
    assert library.sqlengine_abi() == ABI
    # Every kernel that Python asks for is there, and no other.
    declared = {
        n for path in FOLDER.glob("*.c") for n in re.findall(r"^KERNEL sqlengine_(\w+)", path.read_text(), re.M)
    }
    named = {n for path in FOLDER.parent.glob("*.py") for n in re.findall(r'= kernel\("(\w+)"', path.read_text())}
    assert declared == named | {"abi"}
    names = subprocess.run(["nm", "-D", "--undefined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    assert "Py" not in names


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_sources_are_plain_c(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        assert compiler == "clang", "a C compiler is needed"
        return
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wvla", "-Werror", "-DSQLENGINE_ABI=1LL"]
    for path in FOLDER.glob("*.c"):
        subprocess.run([compiler, *flags, "-c", path, "-o", tmp_path / "out.o"], check=True)


def test_what_only_gcc_knows_stands_behind_a_condition() -> None:
    """A stand-in for MSVC: without GCC's macros no builtin and no attribute is left."""
    for path in FOLDER.glob("*.c"):
        plain = subprocess.run(
            ["cc", "-E", "-P", "-nostdinc", "-U__GNUC__", "-U__x86_64__", "-DSQLENGINE_ABI=1LL", "-"],
            input=re.sub(r"#include <.*>", "", path.read_text()),
            cwd=FOLDER,
            capture_output=True,
            text=True,
        )
        assert not re.findall(r"__builtin_\w+|__attribute__|__int128|__asm__", plain.stdout), path.name


@pytest.mark.long
def test_a_wheel_is_for_a_platform_and_any_python(tmp_path: Path) -> None:
    source, given = tmp_path / "source", shutil.ignore_patterns("*.so", "__pycache__", "build", "*.egg-info")
    for folder in ("sqlengine", "planner", "runtime", "connectors"):
        shutil.copytree(ROOT / folder, source / folder, ignore=given)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert re.fullmatch(r"sqlengine-[\d.]+-py3-none-(linux|macosx|win)_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        (library,) = [name for name in archive.namelist() if name.endswith((".so", ".dll", ".pyd"))]
    assert re.search(r"kernels/native/_kernels\.(so|dll)$", library)
