"""The archive of an environment: what is in it, that its Python runs alone, and executors of a cluster that have nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from runtime.core.errors import OptionError
from sqlengine.cli import spark_environment
from sqlengine.cli.spark_environment import needed, write_environment
from sqlengine.cli.spark_package import spark_package_command
from tests.spark.standalone import environment, standalone

ENGINE = [("sqlengine/__init__.py", b"print('the engine')")]
AT_START = ("collections", "encodings", "importlib", "re")
JOB = """
import sys
from pyspark.sql import SparkSession
from sqlengine import TableEnvironment

spark = SparkSession.builder.getOrCreate()

def python(value: int) -> str:
    import pyarrow
    return f"{sys.executable} {pyarrow.__file__}"

t_env = TableEnvironment.create({"parallelism.default": "2", "sqlengine.spark.state-dir": sys.argv[1]}, spark=spark)
t_env.create_temporary_system_function("python", python)
t_env.execute_sql('''CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '100', 'fields.i.kind' = 'sequence',
  'fields.i.start' = '0', 'fields.i.end' = '99')''')
for row in t_env.execute_sql("SELECT MOD(i, 5), python(COUNT(*)) FROM n GROUP BY MOD(i, 5)").to_arrow().to_pylist():
    print("task:", row["EXPR$1"])
spark.stop()
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standard library of what Python needs to start: the whole one takes seconds to compress."""

    def files(library: Path) -> Iterator[Path]:
        yield from sorted(library.glob("*.py"))
        for name in AT_START:
            yield from sorted((library / name).rglob("*.py"))

    monkeypatch.setattr(spark_environment, "_standard_library", files)
    monkeypatch.setattr(spark_environment, "DEFAULT", "tzdata")
    monkeypatch.setattr(spark_environment, "_EFFORT", 1)


@pytest.mark.usefixtures("small")
def test_its_python_runs_alone_and_finds_the_engine(tmp_path: Path) -> None:
    archive = write_environment(tmp_path / "environment.tar.gz", ENGINE, ["pyroaring"])
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "there", filter="data")
    code = "import sqlengine, pyroaring, tzdata, sys; print(sys.prefix, pyroaring.__file__)"
    ran = subprocess.run(
        [tmp_path / "there/bin/python", "-c", code], env={}, cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    engine, place = ran.stdout.splitlines()
    assert engine == "the engine"
    assert place.startswith(f"{tmp_path / 'there'} {tmp_path / 'there'}/")
    again = write_environment(tmp_path / "again.tgz", ENGINE, ["pyroaring"])
    assert again.read_bytes() == archive.read_bytes()


def test_packages_come_with_what_they_need() -> None:
    names = {found.name for found in needed(["sqlengine[spark]"])}
    assert {"sqlengine", "pyarrow", "numpy", "duckdb", "pandas", "tzdata"} <= names
    # Spark gives its own to executors.
    assert not {"pyspark", "py4j", "pytest", "confluent-kafka"} & names
    assert "confluent-kafka" in {found.name for found in needed(["SQLEngine[Kafka]"])}


def test_what_cannot_be_packed_is_told(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="pyarow is not installed here") as told:
        needed(["pyarow"])
    assert "pyarrow" in str(told.value.hint)
    with pytest.raises(OptionError, match="no name of a package"):
        needed(["--index-url"])
    with pytest.raises(OptionError, match=r"environment\.zip is no name"):
        write_environment(tmp_path / "environment.zip", ENGINE)
    with pytest.raises(OptionError, match="--with"):
        spark_package_command(str(tmp_path / "engine.zip"), packages=["pandas"])


@pytest.mark.timeout(0)
@pytest.mark.skipif("SPARK_MATRIX" not in os.environ, reason="four JVMs, and an archive of 130 MB: make spark-matrix")
def test_executors_need_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert spark_package_command(str(tmp_path / "environment.tar.gz"), environment=True) == 0
    archive = capsys.readouterr().out.strip()
    (tmp_path / "job.py").write_text(JOB)
    submit = [str(Path(pyspark.__file__).parent / "bin/spark-submit"), "--archives", f"{archive}#environment"]
    submit += ["--conf", "spark.executor.memory=600m", "--conf", "spark.pyspark.python=./environment/bin/python"]
    job = [str(tmp_path / "job.py"), str(tmp_path / "state")]
    with standalone(tmp_path) as (master, _):
        submit += ["--master", master]
        here = ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
        ran = subprocess.run([*submit, *here, *job], env=environment(), capture_output=True, text=True)
        on_cluster = subprocess.run(
            [*submit, "--deploy-mode", "cluster", *job], env=environment(), capture_output=True, text=True
        )
    told = [line.split()[1:] for line in ran.stdout.splitlines() if line.startswith("task:")]
    assert len(told) == 5, ran.stdout + ran.stderr[-4000:]
    work = str(tmp_path / "work")
    assert all(place.startswith(work) and "/environment/" in place for row in told for place in row), told
    # Who reads docs/spark.md knows; Spark says so as well.
    assert on_cluster.returncode and "not supported for python applications on standalone" in on_cluster.stderr
