"""`sqlengine spark-package`: its arguments."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from runtime.core.rooms import Room

if TYPE_CHECKING:
    import sqlengine.cli.spark_package as _spark_package
else:
    _spark_package = Room("sqlengine.cli.spark_package")

__all__ = ["PACK", "PACK_MORE", "add_pack_arguments"]

PACK = """\
Pack the engine into one file that Spark sends to its executors. Only needed if it is not installed on them. With \
--environment, Python itself and all packages that are needed are in it."""

PACK_MORE = """\
examples:
  spark-submit --py-files $(sqlengine spark-package) my_job.py
  spark-submit --py-files $(sqlengine spark-package) $(sqlengine spark-package --job) job.sql
  spark-submit --archives $(sqlengine spark-package --environment)#environment \\
    --conf spark.pyspark.python=./environment/bin/python --conf spark.pyspark.driver.python=python my_job.py
  sqlengine spark-package --environment --with 'sqlengine[kafka]' --with scikit-learn"""


def add_pack_arguments(package: argparse.ArgumentParser) -> None:
    """Declare them."""
    package.add_argument(
        "path",
        nargs="?",
        help="where to write it (default: sqlengine.zip, sqlengine-environment.tar.gz or sqlengine_job.py)",
    )
    which = package.add_mutually_exclusive_group()
    which.add_argument(
        "--environment",
        action="store_true",
        help="write an archive of Python, the engine with its kernels, and what it needs",
    )
    package.add_argument(
        "--with",
        dest="packages",
        metavar="PACKAGE",
        action="append",
        default=[],
        help="with --environment: an installed package that is also wanted, with what it needs (may be repeated)",
    )
    which.add_argument(
        "--job", action="store_true", help="write the program with which spark-submit runs a file of SQL instead"
    )
    package.set_defaults(
        run=lambda args, options: _spark_package.spark_package_command(
            args.path, job=args.job, environment=args.environment, packages=args.packages
        ),
        options=[],
    )
