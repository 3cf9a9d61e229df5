"""Which file system a path means, and the options by which it is reached.

The options are Flink's: those that its file system for S3 takes in `config.yaml`, with the same three prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from connectors.filesystem.files import local_path
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import FileSystem
from connectors.options import PATH
from runtime.core.errors import OptionError, did_you_mean
from runtime.core.options import Option, Options, bool_option, text_option
from runtime.core.rooms import Room
from runtime.core.secrets import Secret, is_secret

if TYPE_CHECKING:
    import connectors.filesystem.systems.hadoop as _hadoop
    import connectors.filesystem.systems.object_store as _object_store
    import connectors.filesystem.systems.web as _web
else:
    _hadoop = Room("connectors.filesystem.systems.hadoop")
    _object_store = Room("connectors.filesystem.systems.object_store")
    _web = Room("connectors.filesystem.systems.web")

__all__ = ["OTHER_PREFIXES", "STORE_OPTIONS", "system_of"]

_S3: Mapping[str, Option[str] | Option[bool]] = {
    "access_key_id": text_option("s3.access-key", "", "the access key of S3; without it the environment tells"),
    "secret_access_key": text_option("s3.secret-key", "", "the secret key of S3"),
    "session_token": text_option("s3.session-token", "", "the token of temporary credentials of S3"),
    "endpoint": text_option(
        "s3.endpoint", "", "the server of a store that speaks S3, such as 'http://127.0.0.1:9000'; without it AWS"
    ),
    "region": text_option("s3.region", "", "the region of the bucket, such as 'eu-central-1'"),
    "path_style": bool_option(
        "s3.path.style.access", True, "true or false: the bucket is in the path of a request, not in the host's name"
    ),
    "skip_signature": bool_option("s3.anonymous", False, "true or false: requests have no credentials"),
}
_GS: Mapping[str, Option[str] | Option[bool]] = {
    "service_account": text_option(
        "gs.service-account-key-file", "", "the file with the key of a service account of Google Cloud"
    ),
    "base_url": text_option("gs.endpoint", "", "the server of a store that speaks as Google Cloud Storage does"),
    "skip_signature": bool_option("gs.anonymous", False, "true or false: requests have no credentials"),
}
_AZURE: Mapping[str, Option[str] | Option[bool]] = {
    "account_name": text_option(
        "azure.account-name", "", "the storage account of Azure, where the path does not name it"
    ),
    "account_key": text_option("azure.account-key", "", "the key of the storage account"),
    "sas_key": text_option("azure.sas-token", "", "a shared access signature"),
    "endpoint": text_option("azure.endpoint", "", "the server of a store that speaks as Azure does"),
    "skip_signature": bool_option("azure.anonymous", False, "true or false: requests have no credentials"),
}
STORE_OPTIONS = (*_S3.values(), *_GS.values(), *_AZURE.values())
OTHER_PREFIXES = ("s3a.", "fs.s3a.")
"""What the options of S3 may begin with, too, as in Flink."""
_OTHER_NAMES = {"access.key": "access-key", "secret.key": "secret-key", "session.token": "session-token"}
_STORES: Mapping[str, tuple[str, Mapping[str, Option[str] | Option[bool]]]] = {
    "s3": ("s3", _S3),
    "s3a": ("s3", _S3),
    "gs": ("gs", _GS),
    "az": ("az", _AZURE),
    "abfs": ("abfs", _AZURE),
    "abfss": ("abfss", _AZURE),
}
"""By scheme the one that the library knows, and the options."""
_HOST = re.compile(r"(?:[A-Za-z0-9_$][A-Za-z0-9._$-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?", re.ASCII)
"""What has one meaning for everybody: no signs in which a second host could be hidden."""
_ENDPOINT = re.compile(rf"(?:https?://{_HOST.pattern}(?:/[A-Za-z0-9._/-]*)?|{_HOST.pattern})", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def system_of(options: Mapping[str, str]) -> tuple[FileSystem, str]:
    """The file system that the option `path` means, and the path there.

    Raises OptionError: E1505 a scheme that nobody knows, or a place that cannot be; E1503 an unknown option.
    """
    path = options.get(PATH.key) or ""
    found = _SCHEME.match(path)
    scheme = found[1].lower() if found is not None else "file"
    if scheme == "file" or found is None:
        return LOCAL, local_path(path)
    known = _KINDS.get(scheme)
    if known is None:
        raise OptionError(
            f"connector 'filesystem' cannot reach '{path}'",
            code="E1505",
            hint=did_you_mean(scheme, ["file", *_KINDS])
            or f"give a local path, or an address of {', '.join(f'{s}://' for s in ('file', *_KINDS))}",
        )
    return known(path, scheme, options)


def _in_store(path: str, scheme: str, options: Mapping[str, str]) -> tuple[FileSystem, str]:
    name, declared = _STORES[scheme]
    place, key = _parted(path, name)
    if "@" in place and name not in ("abfs", "abfss"):
        raise _refused(path, "it holds credentials", "give them as options, or in the environment")
    read = Options(_own_names(options))
    config: dict[str, Secret | str] = {}
    for setting, option in declared.items():
        if option.key not in read:
            continue
        value: Any = read.get(cast(Option[Any], option))
        text = str(value).lower() if isinstance(value, bool) else str(value)
        config[setting] = Secret(text) if is_secret(option.key) else text
    if config.pop("path_style", "true") == "false":
        config["virtual_hosted_style_request"] = "true"
    endpoint = str(config.get("endpoint") or config.get("base_url") or "")
    if endpoint and _ENDPOINT.fullmatch(endpoint) is None:
        key = declared["endpoint" if "endpoint" in config else "base_url"].key
        raise OptionError(
            f"option '{key}' cannot be '{endpoint}'", hint="it is a server, such as 'https://minio.example.com:9000'"
        )
    if endpoint and "://" not in endpoint:
        endpoint = config["endpoint" if "endpoint" in config else "base_url"] = f"https://{endpoint}"
    files = _object_store.ObjectStoreFiles(place, tuple(sorted(config.items())), endpoint.startswith("http://"))
    # Whoever declares a table is told that a library is missing.
    _ = files.storage
    return files, f"{place}/{key}"


def _own_names(options: Mapping[str, str]) -> dict[str, str]:
    """The options under the names that are declared."""
    known = {o.key for o in STORE_OPTIONS}
    found = {k: v for k, v in options.items() if k in known}
    for key, value in options.items():
        prefix = next((p for p in OTHER_PREFIXES if key.startswith(p)), None)
        if prefix is None and not (key.startswith("s3.") and key not in known):
            continue
        rest = key.removeprefix(prefix or "s3.")
        rest = _OTHER_NAMES.get(rest, "region" if rest == "endpoint.region" else rest)
        if f"s3.{rest}" not in known:
            raise OptionError(
                f"unknown option '{key}' for connector 'filesystem'",
                code="E1503",
                hint=did_you_mean(f"s3.{rest}", known) or f"there are {', '.join(sorted(known))}",
            )
        found.setdefault(f"s3.{rest}", value)
    return found


def _on_server(path: str, scheme: str, options: Mapping[str, str]) -> tuple[FileSystem, str]:
    del scheme, options
    host = path.partition("://")[2].partition("/")[0]
    if not host:
        raise _refused(path, "it names no host", "for example https://example.com/flights.csv")
    if "@" in host:
        raise _refused(path, "it holds credentials", "leave them out")
    # Whoever reads it must find the same host as those who have allowed it.
    if _HOST.fullmatch(host) is None:
        raise _refused(path, "its host is none", "for example https://example.com/flights.csv")
    return _web.WebFiles(), path


def _in_hadoop(path: str, scheme: str, options: Mapping[str, str]) -> tuple[FileSystem, str]:
    del options
    place, key = _parted(path, scheme)
    return _hadoop.HadoopFiles(place), f"{place}/{key}"


def _parted(path: str, scheme: str) -> tuple[str, str]:
    """The place and what is there, without `/` at its ends, none of whose parts is empty or a dot."""
    host, _, key = path.partition("://")[2].partition("/")
    parts = [part for part in key.split("/") if part]
    if not host:
        raise _refused(path, "it names no bucket", f"for example {scheme}://bucket/folder")
    container, _, account = host.rpartition("@")
    if _HOST.fullmatch(account) is None or re.search(r"[?#\\@\s]", container):
        raise _refused(path, "its bucket is none", f"for example {scheme}://bucket/folder")
    if any(part in (".", "..") for part in parts):
        raise _refused(path, "a part of it is a dot", "write it out")
    return f"{scheme}://{host}", "/".join(parts)


def _refused(path: str, why: str, hint: str) -> OptionError:
    return OptionError(f"connector 'filesystem' cannot reach '{path}': {why}", code="E1505", hint=hint)


_KINDS: Mapping[str, Callable[[str, str, Mapping[str, str]], tuple[FileSystem, str]]] = {
    **dict.fromkeys(_STORES, _in_store),
    "hdfs": _in_hadoop,
    "http": _on_server,
    "https": _on_server,
}
