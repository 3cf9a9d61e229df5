"""Where a cluster is, and requests to it: the host that answers first counts."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from connectors.http.address import Address, read_url
from connectors.http.client import PASSING, TryLater, Way, client_of, patiently
from connectors.options import TableOptions
from runtime.core.errors import ConnectorError, OptionError, UnavailableError
from runtime.core.logs import connector_log
from runtime.core.options import duration_option, text_option
from runtime.core.retries import Retries
from runtime.core.secrets import Secret, masked_text

__all__ = ["CLUSTER_OPTIONS", "Cluster", "quoted", "read_cluster"]

HOSTS = text_option("hosts", "", "the cluster, such as 'http://one:9200;http://two:9200'")
USERNAME = text_option("username", "", "who asks, where the cluster wants to know")
PASSWORD = text_option("password", "", "the password of the user; better '${secret:name}'")
API_KEY = text_option("api-key", "", "an API key instead of user and password; better '${secret:name}'")
PREFIX = text_option("connection.path-prefix", "", "what stands before each path, such as '/es', behind a proxy")
ROOT = text_option("ssl-root-cert-path", "", "the file of the certificates that the cluster's must be signed by")
TIMEOUT = duration_option("socket.timeout", 30_000, "how long a connection, or a part of an answer, may take")
_CONNECT = duration_option("connection.timeout", 30_000, "accepted for compatibility: 'socket.timeout' counts")
_REQUEST = duration_option("connection.request-timeout", 30_000, "accepted for compatibility")
CLUSTER_OPTIONS = (HOSTS, USERNAME, PASSWORD, API_KEY, PREFIX, ROOT, TIMEOUT, _CONNECT, _REQUEST)
_MOST_ANSWER = 256 << 20
_TOLD = 300
_RETRIES = Retries(8, 0.1, 10.0, jitter=0.5)
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Cluster:
    """Hosts that are the same, and who asks. No text of it has the password."""

    hosts: tuple[Address, ...]
    prefix: str
    way: Way

    def __str__(self) -> str:
        return self.hosts[0].place

    def ask(
        self, method: str, path: str, body: bytes | Mapping[str, Any] | None = None, kind: str = ""
    ) -> tuple[int, bytes]:
        """Status and body of an answer that is no failure of the cluster; statuses of 4xx are the caller's to understand.

        Raises UnavailableError E3150 where no host answers now, ConnectorError E3260 where this user may not ask.
        """
        data = json.dumps(body).encode() if isinstance(body, Mapping) else body
        headers = {} if data is None else {"Content-Type": kind} if kind else _JSON
        client, failure = client_of(self.way), None
        for host in self.hosts:
            try:
                answer = client.ask(method, f"{host.place}{self.prefix}{path}", data, headers)
            except UnavailableError as error:
                failure = error
                continue
            if answer.status in PASSING and answer.status != 429:
                failure = UnavailableError(
                    f"{host.place}: HTTP {answer.status} {told(answer.body)}", hint="the cluster may answer later"
                )
                continue
            if answer.status == 429:
                raise TryLater(f"{host.place} has too much to do: {told(answer.body)}", hint="it may answer later")
            if answer.status in (401, 403):
                raise ConnectorError(
                    f"{host.place} refuses {path.partition('?')[0]}: HTTP {answer.status} {told(answer.body)}",
                    code="E3260",
                    hint="check the options 'username', 'password' and 'api-key', and what the user may do",
                )
            return answer.status, answer.body
        assert failure is not None
        raise failure

    def patiently(self, method: str, path: str, body: bytes | Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        """The same, asked again for a time where nobody answers."""
        log = connector_log(__name__)
        return patiently(
            lambda: self.ask(method, path, body),
            _RETRIES,
            lambda error, seconds: log.failure(f"{self} is asked again in {seconds:.1f} s", error, logging.WARNING),
        )

    def refused(self, what: str, status: int, body: bytes) -> ConnectorError:
        """What is said of a status that is none of success."""
        return ConnectorError(
            f"{what}: {self} says HTTP {status} {told(body)}", code="E3260", hint="the message is the cluster's own"
        )


def told(body: bytes) -> str:
    """What the cluster says of an error, shortened."""
    text = body[:4000].decode("utf-8", "replace").strip()
    try:
        error = json.loads(body[: 1 << 20]).get("error", {})
        text = str(error.get("reason") or error) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        pass
    return masked_text(" ".join(text.split())[:_TOLD])


def quoted(name: str) -> str:
    """A name, or a list of them, in a path."""
    return quote(name, safe=",*")


def read_cluster(options: TableOptions) -> Cluster:
    """Raises OptionError E1504 without hosts, E1500 for what is not understood."""
    hosts: list[Address] = []
    for text in filter(None, (part.strip() for part in options.required(HOSTS).split(";"))):
        address = read_url(text, HOSTS.key)
        if address.target != "/" or address.columns:
            raise OptionError("option 'hosts' has more than hosts", hint="a path belongs into 'connection.path-prefix'")
        hosts.append(address)
    prefix = options.get(PREFIX).strip("/")
    user, password, key = options.get(USERNAME), options.get(PASSWORD), options.get(API_KEY)
    if key and user:
        raise OptionError("there are both 'username' and 'api-key'", hint="leave one of them out")
    if not key.isascii() or not key.isprintable():
        raise OptionError("option 'api-key' is none", hint="it is letters and digits")
    basic = base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
    header = f"ApiKey {key}" if key else f"Basic {basic}" if user else ""
    own = (("Authorization", Secret(header)),) if header else ()
    way = Way(own, options.get(ROOT), max(0.1, options.get(TIMEOUT) / 1000), _MOST_ANSWER)
    return Cluster(tuple(hosts), f"/{quote(prefix)}" if prefix else "", way)
