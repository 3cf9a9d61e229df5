"""Files in HDFS, through pyarrow, to be read only. It needs Hadoop's own library (libhdfs) and Java, as pyarrow does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO, cast

import pyarrow as pa
from pyarrow import fs

from connectors.filesystem.opening import shown_path
from connectors.filesystem.systems.fetched_file import FetchedFile
from connectors.filesystem.systems.patterns import find_files
from connectors.filesystem.systems.seam import FileStatus, Listed
from runtime.core.errors import ConnectorError, OptionError, UnavailableError

__all__ = ["HadoopFiles"]


@dataclass(frozen=True)
class HadoopFiles:
    """See `FileSystem`. `place`: `hdfs://namenode:8020`."""

    place: str

    @property
    def local(self) -> bool:
        return False

    def group(self, path: str) -> object:
        return self.place

    def _path(self, path: str) -> str:
        return path.removeprefix(self.place).strip("/")

    def find(self, path: str, tolerant: bool) -> list[Listed] | None:
        del tolerant
        found = find_files(self._path(path), self._level, self._below)
        return None if found is None else [Listed(f"{self.place}/{f.path}", f.size, f.modified) for f in found]

    def _level(self, folder: str) -> tuple[list[str], list[Listed]]:
        found = self._select(folder, False)
        folders = [info.base_name for info in found if info.type == fs.FileType.Directory]
        return folders, [_listed(info) for info in found if info.type == fs.FileType.File]

    def _below(self, folder: str) -> list[Listed]:
        return [_listed(info) for info in self._select(folder, True) if info.type == fs.FileType.File]

    def _select(self, folder: str, recursive: bool) -> list[fs.FileInfo]:
        system = _system(self.place)
        if folder and system.get_file_info(f"/{folder}").type != fs.FileType.Directory:
            return []
        return system.get_file_info(fs.FileSelector(f"/{folder}", allow_not_found=True, recursive=recursive))

    def names(self, path: str) -> object:
        """It takes as long as `find`."""
        del path
        return None

    def is_folder(self, path: str) -> bool:
        return _system(self.place).get_file_info(f"/{self._path(path)}").type == fs.FileType.Directory

    def hint(self, path: str) -> str:
        return f"check the option 'path': {self.place} has nothing there"

    def status(self, path: str) -> FileStatus:
        try:
            info = _system(self.place).get_file_info(f"/{self._path(path)}")
        except OSError as error:
            raise UnavailableError(f"cannot read {shown_path(path)}: {error}", hint="is HDFS there?") from error
        if info.type != fs.FileType.File:
            raise ConnectorError(
                f"cannot read {shown_path(path)}: it is no file", code="E3104", hint="check that the file exists"
            )
        return FileStatus(info.size or 0, info.mtime_ns or 0)

    def open(self, path: str, in_order: bool = True) -> tuple[BinaryIO, FileStatus]:
        status = self.status(path)

        def fetch(begin: int, end: int) -> bytes:
            try:
                with _system(self.place).open_input_file(f"/{self._path(path)}") as file:
                    file.seek(begin)
                    data: bytes = file.read(end - begin)
            except OSError as error:
                raise UnavailableError(f"cannot read {shown_path(path)}: {error}", hint="is HDFS there?") from error
            if len(data) < end - begin:
                raise ConnectorError(
                    f"{shown_path(path)} has become shorter while it was read",
                    code="E3105",
                    hint="files of a table must not change once they are there",
                )
            return data

        return cast(BinaryIO, FetchedFile(status.size, fetch, in_order)), status


@lru_cache(maxsize=16)
def _system(place: str) -> fs.FileSystem:
    """Raises OptionError E1505 when it cannot be reached."""
    try:
        return fs.FileSystem.from_uri(f"{place}/")[0]
    except (OSError, pa.ArrowException) as error:
        raise OptionError(
            f"{place} cannot be reached: {str(error).partition(chr(10))[0][:200]}",
            code="E1505",
            hint="pyarrow needs Hadoop's libhdfs and Java: set HADOOP_HOME, JAVA_HOME and CLASSPATH (hadoop classpath --glob)",
        ) from error


def _listed(info: fs.FileInfo) -> Listed:
    return Listed(info.path.strip("/"), info.size or 0, (info.mtime_ns or 0) // 1_000_000)
