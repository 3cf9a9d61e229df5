"""`sqlengine spark-package --environment`: Python, the engine with its kernels, and what it needs, as one archive that Spark's executors
unpack (`--archives`). The machines need nothing but Linux with a C library that is no older than here.

The archive has the layout of a Python that was installed there: `bin/python`, its standard library, and packages. pyspark is
not in it: Spark gives its own to executors and drivers.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from runtime.core.errors import ConnectorError, OptionError, did_you_mean
from sqlengine.cli.one_name import NAME

__all__ = ["DEFAULT", "needed", "write_environment"]

DEFAULT = f"{NAME}[spark]"
"""What is always in it."""

_EFFORT = 6
"""The level of gzip."""
_SPARKS_OWN = ("pyspark", "py4j")
_LEFT_OUT = {
    "__pycache__",
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "ensurepip",
    "tkinter",
    "turtledemo",
}
"""Parts of a standard library that no job wants."""

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")

_LAUNCHER = """#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH="$here/../lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" exec "$here/{name}" "$@"
"""
"""The interpreter may look for its library where it was built."""

_LAYOUT = """
import json, site, sys, sysconfig
value = sysconfig.get_config_var
library = f"{value('LIBDIR')}/{value('INSTSONAME')}" if value("Py_ENABLE_SHARED") else None
print(json.dumps([sys.prefix, sys.executable, sysconfig.get_path("stdlib"), site.getsitepackages(["."])[-1], library]))
"""


def write_environment(target: Path, engine: Iterable[tuple[str, bytes]], wanted: Iterable[str] = ()) -> Path:
    """Write the archive. The same environment gives the same bytes.

    Args:
        target: a path that ends in `.tar.gz`.
        engine: name and content of each file of the engine.
        wanted: further packages as pip writes them, without versions: `scikit-learn`, `sqlengine[kafka]`.

    Raises:
        OptionError: a package is not installed here; the path ends in something else.
        ConnectorError: E3100 it cannot be written; it is not known which files a package has.
    """
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise OptionError(f"{target} is no name for an archive that Spark unpacks", hint=f"{target}.tar.gz is one")
    packages = needed([DEFAULT, *wanted])
    prefix, executable, library, site, shared = _layout()
    interpreter = f"python{sys.version_info.major}.{sys.version_info.minor}"
    try:
        with (
            target.open("wb") as file,
            gzip.GzipFile("", "wb", _EFFORT, file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            _add_text(archive, "bin/python", _LAUNCHER.format(name=interpreter), 0o755)
            _add_text(archive, "bin/python3", _LAUNCHER.format(name=interpreter), 0o755)
            _add_file(archive, f"bin/{interpreter}", Path(executable).resolve())
            if shared is not None and Path(shared).exists():
                _add_file(archive, f"lib/{Path(shared).name}", Path(shared))
            below = Path(library).relative_to(prefix).as_posix()
            for part in _standard_library(Path(library)):
                _add_file(archive, f"{below}/{part.relative_to(library).as_posix()}", part)
            for name, part in _files_of(packages):
                _add_file(archive, f"{site}/{name}", part)
            for name, content in sorted(engine):
                _add_text(archive, f"{site}/{name}", content, 0o644)
    except OSError as error:
        raise ConnectorError(f"{target} cannot be written: {error}", hint="give another path") from error
    return target.resolve()


def needed(wanted: Iterable[str]) -> list[Distribution]:
    """The installed packages that these need, with themselves, each once, by name. What a package requires for other systems or
    versions of Python is not installed, and so left out.

    Raises:
        OptionError: one that is asked for is not installed here.
    """
    installed = {_plain(found.name): found for found in distributions()}
    waiting = [_parsed(text) for text in wanted]
    for (name, _), text in zip(waiting, wanted, strict=True):
        if name not in installed:
            raise OptionError(
                f"{text} is not installed here", hint=did_you_mean(name, installed) or f"pip install {text}, and again"
            )
    seen: set[tuple[str, str]] = set()
    found: dict[str, Distribution] = {}
    while waiting:
        name, extras = waiting.pop()
        package = installed.get(name)
        if package is None or name in _SPARKS_OWN:
            continue
        found[name] = package
        for extra in ("", *extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [_parsed(text) for text in package.requires or () if _is_for(text, extra)]
    return [found[name] for name in sorted(found)]


def _is_for(requirement: str, extra: str) -> bool:
    named = _EXTRA.search(requirement)
    return not named if not extra else named is not None and _plain(named[1]) == extra


def _parsed(requirement: str) -> tuple[str, tuple[str, ...]]:
    """Name and extras of a requirement."""
    found = _REQUIREMENT.match(requirement)
    if found is None:
        raise OptionError(f"{requirement!r} is no name of a package", hint=f"{NAME}[kafka], or scikit-learn")
    return _plain(found[1]), tuple(_plain(e) for e in (found[2] or "").split(",") if e.strip())


def _plain(name: str) -> str:
    """The name of a package as it is compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _layout() -> tuple[str, str, str, str, str | None]:
    """Of the Python below a virtual environment: its folder, program, standard library, where it looks for packages below its
    folder, and its shared library."""
    base: str = getattr(sys, "_base_executable", sys.executable)
    told = subprocess.run([base, "-I", "-c", _LAYOUT], capture_output=True, text=True, check=True)
    prefix, executable, library, site, shared = json.loads(told.stdout)
    return prefix, executable, library, os.path.normpath(site), shared


def _standard_library(library: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(library):
        below[:] = sorted(name for name in below if name not in _LEFT_OUT and not name.startswith("config-"))
        yield from (Path(folder, name) for name in sorted(files) if not name.endswith(".a"))


def _files_of(packages: Iterable[Distribution]) -> Iterator[tuple[str, Path]]:
    """The files of packages, but for the engine's own and programs outside of the folder of packages."""
    for package in packages:
        if package.files is None:
            raise ConnectorError(
                f"it is not known which files {package.name} has", hint="install it with pip, in a virtual environment"
            )
        for file in sorted(package.files):
            name = file.as_posix()
            outside = name.startswith(("..", "/")) or "__pycache__" in file.parts
            ours = _plain(package.name) == NAME and ".dist-info/" not in name
            if not outside and not ours and (place := Path(str(package.locate_file(file)))).is_file():
                yield name, place


def _add_text(archive: tarfile.TarFile, name: str, content: str | bytes, mode: int) -> None:
    data = content.encode() if isinstance(content, str) else content
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _add_file(archive: tarfile.TarFile, name: str, file: Path) -> None:
    """A file, not its owner and time."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = file.stat().st_size, 0o755 if os.access(file, os.X_OK) else 0o644
    with file.open("rb") as content:
        archive.addfile(entry, content)
