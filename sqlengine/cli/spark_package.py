"""`sqlengine spark-package`: the engine as one file for `spark-submit`."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.core.errors import ConnectorError, OptionError
from sqlengine.cli.one_name import BELOW, NAME, renamed
from sqlengine.cli.spark_environment import write_environment

__all__ = ["spark_package_command", "write_job", "write_package"]

_JOB = '''"""Runs files of SQL in the session that spark-submit has made."""

import sys

from pyspark.sql import SparkSession
from sqlengine.cli.main import main

session = SparkSession.builder.getOrCreate()
try:
    status = main(["run", "--on", "spark", *sys.argv[1:]])
finally:
    session.stop()
sys.exit(status)
'''

_HOW = """executors unpack it:
  spark-submit --archives ARCHIVE#environment --conf spark.pyspark.python=./environment/bin/python --conf spark.pyspark.driver.python=python
where the driver runs on the cluster, too (--deploy-mode cluster), leave out the second --conf"""

_HERE = Path(__file__).resolve().parents[1]


def spark_package_command(
    path: str | None, *, job: bool = False, environment: bool = False, packages: Sequence[str] = ()
) -> int:
    """Write the package, and print where it is, for `--py-files $(sqlengine spark-package)`; or the archive of an
    environment for `--archives`, or the program that runs a file of SQL.

    Raises:
        OptionError: packages are named without an environment. More: `write_environment`, `write_job`, `write_package`.
    """
    if packages and not environment:
        raise OptionError("--with names packages of an environment", hint="add --environment")
    if environment:
        print(write_environment(Path(path or "sqlengine-environment.tar.gz"), _files(), packages))
        print(_HOW, file=sys.stderr)
        return 0
    if job:
        print(write_job(Path(path or "sqlengine_job.py")))
        return 0
    target = write_package(Path(path or "sqlengine.zip"))
    print(target)
    print("executors also need: pyarrow, numpy, duckdb, tzdata (pip install on every machine)", file=sys.stderr)
    return 0


def write_job(target: Path) -> Path:
    """The program that spark-submit starts to run a file of SQL. Raises ConnectorError E3100 when it cannot be written."""
    try:
        target.write_text(_JOB, encoding="utf-8")
    except OSError as error:
        raise ConnectorError(f"{target} cannot be written: {error}", hint="give another path") from error
    return target.resolve()


def write_package(target: Path) -> Path:
    """All modules of the engine in a zip file, below one name as in a wheel. The same code gives the same bytes.

    Raises ConnectorError E3100 when it cannot be written.
    """
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
            for name, content in _files():
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                package.writestr(entry, content)
    except OSError as error:
        raise ConnectorError(f"{target} cannot be written: {error}", hint="give another path") from error
    return target.resolve()


def _files() -> Iterator[tuple[str, bytes]]:
    """Name in the package and content of each file."""
    in_checkout = not (_HERE / BELOW[0]).is_dir()
    folders = {_HERE: NAME}
    if in_checkout:
        folders |= {_HERE.parent / package: f"{NAME}/{package}" for package in BELOW}
    for folder, name in folders.items():
        for file in sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
            content = file.read_bytes()
            if in_checkout and file.suffix in (".py", ".pyi"):
                content = renamed(content.decode(), _HERE.parent).encode()
            yield f"{name}/{file.relative_to(folder).as_posix()}", content
