"""`sqlengine spark-package`: the engine as one file for `spark-submit --py-files`."""

from __future__ import annotations

import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

from runtime.core.errors import ConnectorError

__all__ = ["spark_package_command", "write_package"]

PACKAGES = ("runtime", "connectors", "planner", "sqlengine")
_LEFT_OUT = frozenset(("__pycache__",))


def spark_package_command(path: str) -> int:
    """Write the package, and print where it is, for `--py-files $(sqlengine spark-package)`."""
    target = write_package(Path(path))
    print(target)
    print("executors also need: pyarrow, numpy, duckdb, tzdata (pip install on every machine)", file=sys.stderr)
    return 0


def write_package(target: Path) -> Path:
    """All modules of the engine in a zip file. The same code gives the same bytes.

    Raises ConnectorError E3100 when it cannot be written.
    """
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
            for name in PACKAGES:
                spec = find_spec(name)
                assert spec is not None and spec.origin is not None
                root = Path(spec.origin).parent
                for file in sorted(p for p in root.rglob("*") if p.is_file() and not _LEFT_OUT & set(p.parts)):
                    entry = zipfile.ZipInfo(f"{name}/{file.relative_to(root).as_posix()}", (1980, 1, 1, 0, 0, 0))
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    package.writestr(entry, file.read_bytes())
    except OSError as error:
        raise ConnectorError(f"{target} cannot be written: {error}", hint="give another path") from error
    return target.resolve()
