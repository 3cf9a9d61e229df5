"""What a version of a table is made of, and what a version has changed, by its entry in the log.

A version adds and removes files. Where the table has a change data feed, a version that takes rows away has files of changes,
which say it row by row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from connectors.delta.options import Place
from connectors.delta.types import text_of
from connectors.filesystem.column_filters import ColumnFilter
from runtime.core.errors import ConnectorError
from runtime.core.types import TypeRoot

__all__ = ["Change", "DeltaFile", "changes_of", "files_of", "masks_of"]

_BOUNDED = frozenset(
    {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.VARCHAR, TypeRoot.DATE}
)
"""Types whose least and greatest values in the log are those of the rows, or lie outside of them."""


@dataclass(frozen=True)
class DeltaFile:
    """A file: its path below the table's, and the texts of its partition."""

    path: str
    partition: tuple[tuple[str, str | None], ...] = ()
    has_vector: bool = False


@dataclass(frozen=True)
class Change:
    """A file whose rows are what changed: `old` are those that it had, `new` those that it has (None: none), or `feed`: a file
    that says of each row how it changed."""

    old: DeltaFile | None = None
    new: DeltaFile | None = None
    feed: DeltaFile | None = None


def files_of(table: DeltaTable, filters: Sequence[ColumnFilter]) -> list[tuple[DeltaFile, int | None]]:
    """The files of a version that may have rows that pass, in order, and how many rows they have, if that is known."""
    actions = pa.table(table.get_add_actions(flatten=True))
    keep = np.ones(actions.num_rows, bool)
    for one in filters:
        keep &= _may_hold(actions, one, set(table.metadata().partition_columns))
    names = actions.column_names
    partitions = [name for name in names if name.startswith("partition.")]
    actions = actions.filter(pa.array(keep))
    counts = actions.column("num_records").to_pylist() if "num_records" in names else [None] * actions.num_rows
    found: list[tuple[DeltaFile, int | None]] = []
    columns = {name.removeprefix("partition."): actions.column(name).to_pylist() for name in partitions}
    for i, path in enumerate(actions.column("path").to_pylist()):
        from_log = tuple((name, text_of(values[i])) for name, values in columns.items())
        found.append((DeltaFile(unquote(path), from_log), counts[i]))
    return sorted(found, key=lambda one: one[0].path)


def _may_hold(actions: pa.Table, one: ColumnFilter, partitions: set[str]) -> np.ndarray:
    """Which files may have a row that passes."""
    everything = np.ones(actions.num_rows, bool)
    if one.column in partitions:
        column = actions.column(f"partition.{one.column}").combine_chunks().cast(one.type.arrow)
        return np.asarray(pc.fill_null(one.mask(column), False).to_numpy(zero_copy_only=False))
    low, high = (f"{end}.{one.column}" for end in ("min", "max"))
    if one.type.root not in _BOUNDED or not one.values or not {low, high} <= set(actions.column_names):
        return everything
    least, most = (actions.column(name).combine_chunks().cast(one.type.arrow) for name in (low, high))
    wanted = [pa.scalar(value, one.type.arrow) for value in one.values]
    match one.operator:
        case "=" | "in":
            parts = [pc.and_(pc.less_equal(least, w), pc.greater_equal(most, w)) for w in wanted]
        case "<":
            parts = [pc.less(least, wanted[0])]
        case "<=":
            parts = [pc.less_equal(least, wanted[0])]
        case ">":
            parts = [pc.greater(most, wanted[0])]
        case ">=":
            parts = [pc.greater_equal(most, wanted[0])]
        case _:
            return everything
    found = np.zeros(actions.num_rows, bool)
    for part in parts:
        # Where nothing is known, anything may be there.
        found |= np.asarray(pc.fill_null(part, True).to_numpy(zero_copy_only=False))
    return found


def changes_of(files: Any, place: Place, version: int) -> list[Change]:
    """What a version has changed: first what it takes away. Raises ConnectorError E3192 when its entry is gone."""
    try:
        with files.open_input_stream(f"_delta_log/{version:020}.json") as opened:
            actions = [json.loads(line) for line in opened.read().splitlines() if line.strip()]
    except FileNotFoundError as error:
        raise ConnectorError(
            f"version {version} of {place.path} is not in its log any more",
            code="E3192",
            hint="begin anew, and keep the log for longer than a job may stand still ('delta.logRetentionDuration')",
        ) from error
    feed = [_file(a["cdc"]) for a in actions if "cdc" in a]
    if feed:
        return [Change(feed=file) for file in sorted(feed, key=lambda f: f.path)]
    removed = {f.path: f for f in _changing(actions, "remove")}
    added = {f.path: f for f in _changing(actions, "add")}
    gone = [Change(old=removed[path], new=added.get(path)) for path in sorted(removed)]
    return [*gone, *(Change(new=added[path]) for path in sorted(added) if path not in removed)]


def _changing(actions: Iterable[dict[str, Any]], kind: str) -> list[DeltaFile]:
    """Files of a kind of action, without those that only put rows together anew."""
    return [_file(a[kind]) for a in actions if kind in a and a[kind].get("dataChange", True)]


def _file(action: dict[str, Any]) -> DeltaFile:
    partition = action.get("partitionValues") or {}
    return DeltaFile(
        unquote(action["path"]),
        tuple(sorted((k, None if v is None else str(v)) for k, v in partition.items())),
        bool(action.get("deletionVector")),
    )


def masks_of(table: DeltaTable) -> dict[str, np.ndarray]:
    """Which rows of files stay, by the name of the file, where a version has deleted some by position."""
    found: dict[str, np.ndarray] = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for path, mask in zip(batch.column("filepath"), batch.column("selection_vector"), strict=True):
            found[unquote(path.as_py().rpartition("/")[2])] = np.asarray(
                mask.values.to_numpy(zero_copy_only=False), bool
            )
    return found
