"""How rows get into a table of Spark, each commit once: the kinds of tables differ in what tells that it is there.

A commit has a run and a number: runs are told apart by names that no two have, and the numbers of a run count from 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from runtime.core.errors import ConnectorError, UnsupportedError
from runtime.spark.session import asked, is_remote
from runtime.spi.sink import Delivery

__all__ = ["Appends", "Calls", "Commits", "SparkTable", "commits_of", "described"]

_FILE_FORMATS = ("parquet", "orc")
_STAGING = "_sqlengine"
"""The folder below a table's in which files wait. What begins with `_` is not read."""
_WRITTEN = "_written"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Commits(Protocol):
    """Puts rows into a table."""

    @property
    def delivery(self) -> Delivery:
        """Whether a commit that is carried out again changes nothing."""
        ...

    def commit(self, frame: Any, run: str, number: int) -> None:
        """Rows become part of the table, unless this commit has put them there already."""
        ...


@dataclass(frozen=True)
class SparkTable:
    """What Spark says of a table.

    Args:
        place: its name in Spark's SQL.
        provider: `parquet`, `delta`; "" when Spark does not say.
        kind: `MANAGED`, `EXTERNAL` or `VIEW`.
        location: the URI of its folder; "" when it has none.
        partitions: the columns that are folders.
        buckets: whether rows belong to buckets.
    """

    place: str
    provider: str
    kind: str
    location: str
    partitions: tuple[str, ...]
    buckets: bool


def described(session: Any, place: str) -> SparkTable:
    """A table as DESCRIBE TABLE EXTENDED tells it."""
    rows = [(row[0], row[1] or "") for row in session.sql(f"DESCRIBE TABLE EXTENDED {place}").collect()]
    titles = [name for name, _ in rows if name.startswith("# ")]
    sections: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
    title = ""
    for name, value in rows:
        if name.startswith("# ") and name != "# col_name":
            title = name
        elif title and name and name != "# col_name":
            sections[title].append((name, value))
    details = dict(sections.get("# Detailed Table Information", ()))
    partitions = tuple(name for name, _ in sections.get("# Partition Information", ()))
    return SparkTable(
        place,
        details.get("Provider", "").lower(),
        details.get("Type", "").upper(),
        details.get("Location", ""),
        partitions,
        "Num Buckets" in details,
    )


def commits_of(session: Any, table: SparkTable) -> Commits:
    """What writes a table.

    Raises:
        UnsupportedError: E1601 it cannot be written.
    """
    if "VIEW" in table.kind or (not table.kind and not table.provider):
        raise UnsupportedError(
            f"{table.place} is a view of Spark, which takes no rows", code="E1601", hint="INSERT INTO a table of Spark"
        )
    if table.provider == "delta":
        return DeltaCommits(session, table)
    if table.provider == "iceberg":
        return IcebergCommits(session, table)
    if table.provider in _FILE_FORMATS and not is_remote(session):
        if table.buckets:
            raise UnsupportedError(
                f"{table.place} has buckets, which only Spark fills",
                code="E1601",
                hint="INSERT INTO a table without CLUSTERED BY, and let spark.sql(...) copy from there",
            )
        return FileCommits(session, table)
    return Appends(session, table)


@dataclass(frozen=True)
class Appends:
    """A table to which Spark appends: a commit that is carried out again is there twice."""

    session: Any
    table: SparkTable
    delivery: Delivery = "at-least-once"

    def commit(self, frame: Any, run: str, number: int) -> None:
        asked(lambda: frame.write.insertInto(self.table.place))


@dataclass(frozen=True)
class Calls:
    """What a function of the program does with rows, told the name of the commit."""

    function: Callable[[Any, str], Any]
    delivery: Delivery = "at-least-once"

    def commit(self, frame: Any, run: str, number: int) -> None:
        self.function(frame, f"{run}-{number}")


@dataclass(frozen=True)
class DeltaCommits:
    """Delta keeps for each application the last transaction that it has made, and leaves out those before it."""

    session: Any
    table: SparkTable
    delivery: Delivery = "exactly-once"

    def commit(self, frame: Any, run: str, number: int) -> None:
        writer = frame.write.format("delta").mode("append")
        writer = writer.option("txnAppId", f"sqlengine-{run}").option("txnVersion", number)
        asked(lambda: writer.saveAsTable(self.table.place))


@dataclass(frozen=True)
class IcebergCommits:
    """Snapshots of Iceberg carry notes: which commit they are."""

    session: Any
    table: SparkTable
    delivery: Delivery = "exactly-once"

    def commit(self, frame: Any, run: str, number: int) -> None:
        known = self.session.table(f"{self.table.place}.snapshots").where(f"summary['sqlengine-run'] = '{run}'")
        numbers = known.selectExpr("max(CAST(summary['sqlengine-commit'] AS BIGINT))")
        last = asked(lambda: numbers.collect())[0][0]
        if last is not None and last >= number:
            return
        writer = frame.writeTo(self.table.place).option("snapshot-property.sqlengine-run", run)
        asked(lambda: writer.option("snapshot-property.sqlengine-commit", str(number)).append())


@dataclass(frozen=True)
class FileCommits:
    """A table that is files of a folder: Spark writes them below a hidden folder with the name of the commit, and they
    are moved from there one by one. What is moved already is not there to be moved again.

    Whoever reads meanwhile may see a part of a commit.
    """

    session: Any
    table: SparkTable
    delivery: Delivery = "exactly-once"

    def commit(self, frame: Any, run: str, number: int) -> None:
        asked(lambda: self._commit(frame, f"{run}-{number}"))

    def _commit(self, frame: Any, name: str) -> None:
        jvm = self.session._jvm
        paths = jvm.org.apache.hadoop.fs.Path
        root = paths(self.table.location)
        files = root.getFileSystem(self.session._jsparkSession.sessionState().newHadoopConf())
        above = paths(root, _STAGING)
        place, mark = paths(above, name), paths(paths(above, name), _WRITTEN)
        if not files.exists(mark):
            writer = frame.write.format(self.table.provider).mode("overwrite")
            writer.partitionBy(*self.table.partitions).save(place.toString())
            files.create(mark, True).close()
        folders = self._move(files, paths, place, root)
        for folder in sorted(folders):
            if folder:
                values = ", ".join(_partition_value(part) for part in folder.split("/"))
                self.session.sql(f"ALTER TABLE {self.table.place} ADD IF NOT EXISTS PARTITION ({values})")
        self.session.catalog.refreshTable(self.table.place)

    def forget(self, run: str, number: int) -> None:
        """Nobody will carry out a commit again."""
        paths = self.session._jvm.org.apache.hadoop.fs.Path
        root = paths(self.table.location)
        files = root.getFileSystem(self.session._jsparkSession.sessionState().newHadoopConf())
        above = paths(root, _STAGING)
        files.delete(paths(above, f"{run}-{number}"), True)
        if files.exists(above) and not files.listStatus(above):
            files.delete(above, False)

    def _move(self, files: Any, paths: Any, place: Any, root: Any) -> set[str]:
        """Gives the folders of the partitions that files of the commit are or were in."""
        base = files.makeQualified(place).toUri().getPath().rstrip("/")
        found: set[str] = set()
        listed = files.listFiles(place, True)
        while listed.hasNext():
            source = listed.next().getPath()
            folder, _, name = source.toUri().getPath().removeprefix(base).lstrip("/").rpartition("/")
            if name.startswith(("_", ".")):
                continue
            target = paths(root, f"{folder}/{name}" if folder else name)
            files.mkdirs(target.getParent())
            if not files.rename(source, target) and not files.exists(target):
                raise ConnectorError(f"{source.toString()} cannot be moved to {target.toString()}", code="E3112")
            found.add(folder)
        # Of a commit that was cut short: what has been moved is told by the folders that are left.
        return found | self._folders(files, place, base)

    def _folders(self, files: Any, place: Any, base: str) -> set[str]:
        if not self.table.partitions:
            return set()
        found = [place]
        for _ in self.table.partitions:
            below = [
                status.getPath() for folder in found for status in files.listStatus(folder) if status.isDirectory()
            ]
            found = [folder for folder in below if "=" in folder.getName()]
        return {folder.toUri().getPath().removeprefix(base).lstrip("/") for folder in found}


def _partition_value(part: str) -> str:
    """`column=value` of a folder's name as Spark's SQL has it."""
    column, _, value = part.partition("=")
    name = "`" + unquote(column).replace("`", "``") + "`"
    if value == _NO_VALUE:
        return f"{name} = NULL"
    text = re.sub(r"(['\\])", r"\\\1", unquote(value))
    return f"{name} = '{text}'"
