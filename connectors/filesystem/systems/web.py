"""Files that a server gives over HTTP, to be read only. Nothing is listed: a path is one file.

A server that gives ranges is asked for those that are needed. From another one the whole file is taken, into a temporary one.
A redirection to another host is not followed: who may be asked was decided by the path.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, cast
from urllib.parse import quote, urljoin, urlsplit

from connectors.filesystem.opening import shown_path
from connectors.filesystem.systems.fetched_file import PART, FetchedFile
from connectors.filesystem.systems.seam import FileStatus, Listed
from runtime.core.errors import ConnectorError, UnavailableError
from runtime.core.retries import Retries, retried

__all__ = ["WebFiles"]

_SECONDS = 30.0
_RETRIES = Retries(4, 0.2, 3.0, jitter=0.5)
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_SAFE = "%/:=&?~#+!$,;'@()*[]"
_COPIED = 1 << 20
_IN_MEMORY = 16 << 20
_MOST = 64 << 30
"""No file of which a server gives only the whole may be larger."""


@dataclass(frozen=True)
class WebFiles:
    """See `FileSystem`."""

    @property
    def local(self) -> bool:
        return False

    def group(self, path: str) -> object:
        return urlsplit(path).netloc

    def find(self, path: str, tolerant: bool) -> list[Listed] | None:
        del tolerant
        try:
            status = self.status(path)
        except ConnectorError as error:
            if isinstance(error.__cause__, urllib.error.HTTPError) and error.__cause__.code in (404, 410):
                return None
            raise
        return [Listed(path, status.size, status.modified // 1_000_000)]

    def names(self, path: str) -> object:
        """It takes as long as `find`."""
        del path
        return None

    def is_folder(self, path: str) -> bool:
        del path
        return False

    def hint(self, path: str) -> str:
        return (
            f"{urlsplit(path).netloc} has no such file; a server is asked for one file, not for a folder or a pattern"
        )

    def status(self, path: str) -> FileStatus:
        def ask() -> FileStatus:
            # Some servers do not answer HEAD.
            with _asked(path, {"Range": "bytes=0-0"}) as answer:
                return _status(path, answer)

        return retried(ask, _RETRIES, UnavailableError)

    def open(self, path: str, in_order: bool = True) -> tuple[BinaryIO, FileStatus]:
        with _asked(path, {"Range": f"bytes=0-{PART - 1}"}) as answer:
            if answer.status != 206:
                return _copied(path, answer)
            status = _status(path, answer)
            first = _read(path, answer, min(PART, status.size))
        # A weak tag does not say that bytes are the same.
        tag = {"If-Match": status.version} if status.version.startswith('"') else {}

        def fetch(begin: int, end: int) -> bytes:
            with _asked(path, {"Range": f"bytes={begin}-{end - 1}", **tag}) as part:
                if part.status != 206 or _status(path, part) != status:
                    raise _changed(path)
                return _read(path, part, end - begin)

        return cast(BinaryIO, FetchedFile(status.size, fetch, in_order, first)), status


def _asked(path: str, headers: Mapping[str, str]) -> Any:
    """The answer to a GET. Raises ConnectorError E3104, E3105, UnavailableError."""
    request = urllib.request.Request(quote(path, safe=_SAFE), headers={"Accept-Encoding": "identity", **headers})
    try:
        return _OPENER.open(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and headers.get("Range", "").startswith("bytes=0-"):
            return _asked(path, {})  # it is empty
        if error.code == 412:
            raise _changed(path) from error
        what = f"cannot read {shown_path(path)}: the server says {error.code} {error.reason}"
        if error.code in _PASSING:
            raise UnavailableError(what, hint="try it later") from error
        raise ConnectorError(what, code="E3104", hint="check the address, and who may read it") from error
    except (http.client.InvalidURL, UnicodeError) as error:
        raise ConnectorError(f"{shown_path(path)} is no address: {error}", code="E3104", hint="check it") from error
    except (OSError, http.client.HTTPException) as error:
        raise _away(path, error) from error


def _away(path: str, error: Exception) -> ConnectorError:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    what = f"cannot read {shown_path(path)}: {reason}"
    if isinstance(reason, ssl.SSLCertVerificationError | socket.gaierror):
        return ConnectorError(what, code="E3104", hint="check the address, and the certificate of the server")
    return UnavailableError(what, hint="is the server there, and reachable from here?")


def _status(path: str, answer: Any) -> FileStatus:
    """Raises ConnectorError E3104 when the server does not say how large the file is, which only some of those do that give
    no ranges."""
    headers: Message = answer.headers
    if answer.status == 206:
        found = _RANGE.fullmatch(headers.get("Content-Range", ""))
        size = None if found is None else int(found[3])
    else:
        length = headers.get("Content-Length", "")
        size = int(length) if length.isascii() and length.isdigit() else None
    if size is None:
        raise ConnectorError(
            f"cannot read {shown_path(path)}: the server does not say how large it is",
            code="E3104",
            hint="take it from another server, or copy it to a folder",
        )
    return FileStatus(size, _modified(headers), headers.get("ETag", ""))


def _modified(headers: Message) -> int:
    try:
        return int(parsedate_to_datetime(headers.get("Last-Modified", "")).timestamp()) * 1_000_000_000
    except (TypeError, ValueError, OverflowError):
        return 0


def _read(path: str, answer: Any, size: int) -> bytes:
    try:
        data: bytes = answer.read(size)
    except (OSError, http.client.HTTPException) as error:
        raise _away(path, error) from error
    if len(data) < size:
        raise UnavailableError(f"cannot read {shown_path(path)}: the answer was cut off", hint="try it later")
    return data


def _copied(path: str, answer: Any) -> tuple[BinaryIO, FileStatus]:
    """The whole file."""
    status = _status(path, answer)
    if status.size > _MOST:
        raise ConnectorError(
            f"cannot read {shown_path(path)}: it has {status.size:,} bytes, and its server gives no parts of it",
            code="E3104",
            hint="take it from a server that gives ranges, or copy it to a folder",
        )
    file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
    try:
        for begin in range(0, status.size, _COPIED):
            file.write(_read(path, answer, min(_COPIED, status.size - begin)))
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return cast(BinaryIO, _Whole(file)), status


class _Whole(FetchedFile):
    """A `RangedFile` that is here already."""

    def __init__(self, file: Any) -> None:
        self._file = file
        super().__init__(file.seek(0, 2), self._of_file, in_order=False)

    def _of_file(self, begin: int, end: int) -> bytes:
        self._file.seek(begin)
        data: bytes = self._file.read(end - begin)
        return data

    def load(self, ranges: object) -> None:
        """All is here."""

    def close(self) -> None:
        self._file.close()
        super().close()


def _changed(path: str) -> ConnectorError:
    return ConnectorError(
        f"{shown_path(path)} has been replaced while it was read",
        code="E3105",
        hint="files of a table must not change once they are there",
    )


class _SameHost(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(urljoin(req.full_url, newurl))
        same = new.hostname == old.hostname and (new.port == old.port or new.port is None or old.port is None)
        if not same or (old.scheme == "https" and new.scheme != "https"):
            fp.close()
            raise ConnectorError(
                f"cannot read {shown_path(req.full_url)}: it is elsewhere, at {new.scheme}://{new.netloc}{new.path}",
                code="E3104",
                hint="if that host may be asked, give that address as the path",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_SameHost)
