"""A catalog that is a folder, as Hadoop's of Iceberg: `warehouse/database/table/metadata/v3.metadata.json`.

Whoever makes the file of the next version first has committed; a folder of this machine refuses the second one.
`version-hint.text` says where to begin to look, and may be behind.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from contextlib import suppress
from typing import Any

from pyiceberg.catalog import MetastoreCatalog, PropertiesUpdateSummary
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

__all__ = ["FolderCatalog"]

_VERSION = re.compile(r"v(\d+)\.(?:gz\.)?metadata\.json|v(\d+)\.metadata\.json\.gz")
_HINT = "version-hint.text"
_response: Any = CommitTableResponse


class FolderCatalog(MetastoreCatalog):
    """See `pyiceberg.catalog.Catalog`. `warehouse`: the folder."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._root = os.path.abspath(properties["warehouse"].removeprefix("file://"))

    # --- tables

    def create_table(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        identifier: Any,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = UNPARTITIONED_PARTITION_SPEC,
        sort_order: Any = UNSORTED_SORT_ORDER,
        properties: Any = None,
    ) -> Table:
        if not self.namespace_exists(self.namespace_from(identifier)):
            raise NoSuchNamespaceError(f"there is no database {'.'.join(self.namespace_from(identifier))}")
        if self._newest(self._place(identifier)) is not None:
            raise TableAlreadyExistsError(f"there is a table {identifier} already")
        place = self._place(identifier)
        staged = self._create_staged_table(
            identifier, schema, f"file://{place}", partition_spec, sort_order, properties or {}
        )
        if not self._write(place, 1, staged.metadata):
            raise TableAlreadyExistsError(f"there is a table {identifier} already")
        return self.load_table(identifier)

    def load_table(self, identifier: Any) -> Table:
        newest = self._newest(self._place(identifier))
        if newest is None:
            raise NoSuchTableError(f"there is no table {identifier}")
        where = f"file://{newest[1]}"
        io = load_file_io(self.properties, where)
        metadata = FromInputFile.table_metadata(io.new_input(where))
        return Table(self.identifier_to_tuple(identifier), metadata, where, io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        identifier = table.name()
        newest = self._newest(self._place(identifier))
        current = self.load_table(identifier) if newest is not None else None
        staged = self._update_and_stage_table(current, identifier, requirements, updates)
        if current is not None and staged.metadata == current.metadata:
            return _response(metadata=current.metadata, metadata_location=current.metadata_location)
        version = _version_of(current.metadata_location) + 1 if current is not None else 1
        if not self._write(self._place(identifier), version, staged.metadata):
            raise CommitFailedException(f"another writer has made version {version} of {'.'.join(identifier)}")
        made = self.load_table(identifier)
        return _response(metadata=made.metadata, metadata_location=made.metadata_location)

    def drop_table(self, identifier: Any) -> None:
        place = self._place(identifier)
        if self._newest(place) is None:
            raise NoSuchTableError(f"there is no table {identifier}")
        shutil.rmtree(place)

    def purge_table(self, identifier: Any) -> None:
        self.drop_table(identifier)

    def rename_table(self, from_identifier: Any, to_identifier: Any) -> Table:
        raise NotImplementedError("a table of a folder has its place as its name, and cannot be renamed")

    def register_table(self, identifier: Any, metadata_location: str, overwrite: bool = False) -> Table:
        raise NotImplementedError("a table of a folder is where its name says")

    def list_tables(self, namespace: Any) -> list[Any]:
        place, names = self._folder(namespace), self.identifier_to_tuple(namespace)
        return [(*names, name) for name in _folders(place) if self._newest(os.path.join(place, name)) is not None]

    # --- databases

    def create_namespace(self, namespace: Any, properties: Any = None) -> None:
        try:
            os.makedirs(self._folder(namespace, exists=False))
        except FileExistsError as error:
            raise NamespaceAlreadyExistsError(f"there is a database {namespace} already") from error

    def drop_namespace(self, namespace: Any) -> None:
        place = self._folder(namespace)
        try:
            os.rmdir(place)
        except OSError as error:
            raise NamespaceNotEmptyError(f"the database {namespace} is not empty") from error

    def list_namespaces(self, namespace: Any = ()) -> list[Any]:
        names = self.identifier_to_tuple(namespace) if namespace else ()
        place = self._folder(names) if names else self._root
        return [(*names, n) for n in _folders(place) if self._newest(os.path.join(place, n)) is None]

    def load_namespace_properties(self, namespace: Any) -> dict[str, str]:
        self._folder(namespace)
        return {}

    def update_namespace_properties(
        self, namespace: Any, removals: Any = None, updates: Any = None
    ) -> PropertiesUpdateSummary:
        raise NotImplementedError("a folder has no properties")

    # --- views: there are none

    def list_views(self, namespace: Any) -> list[Any]:
        return []

    def view_exists(self, identifier: Any) -> bool:
        return False

    def load_view(self, identifier: Any) -> Any:
        raise NoSuchTableError(f"there is no view {identifier}")

    def drop_view(self, identifier: Any) -> None:
        raise NoSuchTableError(f"there is no view {identifier}")

    def register_view(self, identifier: Any, metadata_location: str) -> Any:
        raise NotImplementedError("a folder has no views")

    # --- files

    def _folder(self, namespace: Any, *, exists: bool = True) -> str:
        place = os.path.join(self._root, *map(_checked, self.identifier_to_tuple(namespace)))
        if exists and not os.path.isdir(place):
            raise NoSuchNamespaceError(f"there is no database {'.'.join(self.identifier_to_tuple(namespace))}")
        return place

    def _place(self, identifier: Any) -> str:
        return os.path.join(self._root, *map(_checked, self.identifier_to_tuple(identifier)))

    def _newest(self, place: str) -> tuple[int, str] | None:
        """The newest version of the table in a folder, and its file."""
        folder = os.path.join(place, "metadata")
        found = max(
            ((number, name) for name in _listed(folder) if (number := _version_of(name)) > 0),
            default=None,
        )
        return None if found is None else (found[0], os.path.join(folder, found[1]))

    def _write(self, place: str, version: int, metadata: Any) -> bool:
        """Make a version; False when another writer has made it."""
        folder = os.path.join(place, "metadata")
        os.makedirs(folder, exist_ok=True)
        hidden = os.path.join(folder, f".{uuid.uuid4()}.tmp")
        with open(hidden, "w", encoding="utf-8") as file:
            file.write(metadata.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        try:
            publish(hidden, os.path.join(folder, f"v{version}.metadata.json"))
        except FileExistsError:
            return False
        finally:
            with suppress(OSError):
                os.unlink(hidden)
        with suppress(OSError):
            self._hint(folder, version)
        return True

    @staticmethod
    def _hint(folder: str, version: int) -> None:
        hidden = os.path.join(folder, f".{uuid.uuid4()}.tmp")
        with open(hidden, "w", encoding="utf-8") as file:
            file.write(str(version))
        os.replace(hidden, os.path.join(folder, _HINT))


def publish(hidden: str, shown: str) -> None:
    """Give a file its name, unless there is one of it; raises FileExistsError."""
    os.link(hidden, shown)


def _version_of(location: str) -> int:
    found = _VERSION.fullmatch(os.path.basename(location))
    return int(found.group(1) or found.group(2)) if found else 0


def _checked(name: str) -> str:
    """A name that is a folder of its own, and not a way out."""
    if not name or name in (".", "..") or "/" in name or "\0" in name or os.sep in name:
        raise NoSuchNamespaceError(f"{name!r} is not the name of a folder")
    return name


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _folders(place: str) -> list[str]:
    return sorted(n for n in _listed(place) if not n.startswith((".", "_")) and os.path.isdir(os.path.join(place, n)))
