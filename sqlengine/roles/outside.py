"""What is outside of the database: files and folders, and the hosts of other systems.

Two things are asked. A server says which paths and hosts anybody may reach at all (`Outside`), each time that something is
opened, with symbolic links followed. And a role needs privileges for what it names itself (`check_outside`): connectors and
paths in definitions, in options of hints and in FROM; who reads a table needs none for what its owner has named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit

from runtime.core.errors import AccessError, Span
from sqlengine.roles.authority import Authority
from sqlengine.roles.privileges import Target, covers

__all__ = ["Outside", "check_outside", "hosts_of", "paths_of", "whole_path"]

_PATH_KEY = re.compile(r"(?:^|[.-])(?:path|paths|file|files|dir|directory|location|warehouse|folder)$")
_PATH_URL = re.compile(r"(?:jdbc:)?sqlite:", re.IGNORECASE)
"""Of databases that are files."""
_HOST_KEY = re.compile(
    r"(?:^|[.-])(?:url|uri|urls|hosts?|hostname|servers|bootstrap\.servers|endpoint|endpoints|brokers?|address|nodes)$"
)

_SERVICE = re.compile(r"arn:aws[a-z-]*:([a-z]+):([a-z0-9-]+):")
"""Of AWS, in a region: where no other address is given it is reached at that of the region."""


def whole_path(path: str) -> str:
    """A path as privileges have it: of a file of this machine without `..`, `~` and symbolic links; of an object store without
    credentials."""
    if path.lower().startswith("file:"):
        path = unquote(urlsplit(path).path)
    if "://" not in path:
        return os.path.realpath(path)
    parts = urlsplit(path)
    folders: list[str] = []
    for part in parts.path.split("/"):
        if part == "..":
            del folders[-1:]
        elif part not in ("", "."):
            folders.append(part)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme.lower().replace('s3a', 's3')}://{host}" + "".join(f"/{folder}" for folder in folders)


def paths_of(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The options that name files or folders."""
    for key, value in options.items():
        database = re.match(r"sqlite(?:\+\w+)?:///([^?]*)", value, re.IGNORECASE)
        if database is not None:
            yield key, database.group(1)
        elif _PATH_KEY.search(key.lower()) is not None or value.lower().startswith("file:"):
            yield key, value
        elif (found := _PATH_URL.match(value)) is not None:
            yield key, value[found.end() :]


def hosts_of(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The hosts that options name: `h`, `h:1,i:2`, `https://h/x`, `jdbc:postgresql://h/x`."""
    for key, value in options.items():
        if "://" in value:
            for found in re.findall(r"(?<=://)[^\s/?#;]+", value):
                if not value.lower().startswith("file:"):
                    yield from ((key, host) for host in _hosts_of_authority(found))
        elif _HOST_KEY.search(key.lower()) is not None:
            for part in re.split(r"[\s,;]+", value):
                if part and "/" not in part:
                    yield (
                        key,
                        part.rpartition(":")[0].strip("[]").lower() if re.search(r":\d+$", part) else part.lower(),
                    )
        elif (found := _SERVICE.match(value)) is not None and not options.get("aws.endpoint"):
            yield key, f"{found[1]}.{found[2]}.amazonaws.com"


def _hosts_of_authority(text: str) -> Iterator[str]:
    """Of `user:password@h:1,[::1]:2`. What has no name between colon and comma, as in a list of addresses, is a scheme."""
    for part in text.rpartition("@")[2].split(","):
        found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::\d*)?", part)
        host = part if found is None else found[1].strip("[]")
        if host and not re.fullmatch(r"[a-z][a-z0-9+.-]*:", part):
            yield host.lower()


class Outside:
    """What a server lets anybody reach.

    Args:
        paths: roots of files and of object stores; None: all.
        hosts: names of hosts, `*.example.com` for those below one; None: all.
    """

    def __init__(self, paths: tuple[str, ...] | None, hosts: tuple[str, ...] | None) -> None:
        self._paths = None if paths is None else tuple(whole_path(path) for path in paths)
        self._hosts = None if hosts is None else tuple(host.lower() for host in hosts)

    def check(self, options: Mapping[str, str]) -> None:
        """Raises AccessError E1801 for a path, E1802 for a host that is not among them."""
        if self._paths is not None:
            for key, path in paths_of(options):
                self.check_path(path, key)
        if self._hosts is not None:
            for key, host in hosts_of(options):
                if not self._knows(host) and not self._is_allowed_store(options[key]):
                    raise AccessError(
                        f"option '{key}' names the host {host}, which this server does not reach",
                        code="E1802",
                        hint="start it with --allow-host HOST",
                    )

    def check_path(self, path: str, key: str | None = None) -> None:
        """Raises AccessError E1801 for a path that is not among them."""
        if self._paths is None:
            return
        whole = whole_path(path)
        if not any(covers(root, whole) for root in self._paths):
            what = f"'{path}'" if key is None else f"option '{key}'"
            raise AccessError(
                f"{what} is outside of the folders that this server reaches",
                code="E1801",
                hint="start it with --allow-path FOLDER",
            )

    def _knows(self, host: str) -> bool:
        assert self._hosts is not None
        return any(host == known or (known.startswith("*.") and host.endswith(known[1:])) for known in self._hosts)

    def _is_allowed_store(self, value: str) -> bool:
        """A bucket is reached by its path."""
        return self._paths is not None and "://" in value and any(covers(r, whole_path(value)) for r in self._paths)


def check_outside(
    authority: Authority | None,
    connector: str | None,
    options: Mapping[str, str],
    privilege: str | None = None,
    span: Span | None = None,
) -> None:
    """Raises AccessError E1800 where a role names a connector, or a path, that it has no privilege for. `privilege`: READ or
    WRITE; None: either will do."""
    if authority is None or authority.is_superuser:
        return
    if connector is not None:
        authority.require("USAGE", Target("connector", (connector,)), span)
    for _, path in paths_of(options):
        whole, needed = whole_path(path), (privilege,) if privilege is not None else ("READ", "WRITE")
        if not any(authority.may_path(one, whole) for one in needed):
            words = " or ".join(needed)
            raise authority.denied(
                f'path "{path}"', span, f"that needs {words}: GRANT {needed[0]} ON PATH '{whole}' TO {authority.name}"
            )
