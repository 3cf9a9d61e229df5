"""Asks a schema registry over HTTP (https://docs.confluent.io/platform/current/schema-registry/develop/api.html).

What an id means never changes, so it is asked once. Nothing is followed to another address: a server that says which hosts
may be reached has looked at this one only.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from runtime.core.errors import ConnectorError, UnavailableError
from runtime.core.retries import Retries, retried
from runtime.core.secrets import Secret, masked_text

__all__ = ["NoSchema", "RegisteredSchema", "RegistryAddress", "RegistryClient"]

_MOST_BYTES = 16 << 20
_MOST_REFERENCES = 100
_MOST_KNOWN = 10_000
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
_RETRIES = Retries(4, first=0.2, most=2.0, jitter=0.5)
_MEDIA = "application/vnd.schemaregistry.v1+json"


class NoSchema(Exception):
    """The registry does not have it; the message says what."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema: `AVRO`, `JSON` or `PROTOBUF`, its text, and the texts of what it refers to, with their names, in the order in
    which they must be read."""

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


_NOTHING = Secret("")


@dataclass(frozen=True)
class RegistryAddress:
    """Where a registry is, and who asks.

    Attributes:
        urls: of several that are the same the first that answers counts.
        authorization: the header of that name.
        trusted: a file of certificates (PEM) that are trusted instead of those of the system.
        certificate: a file with a certificate and its key (PEM), with its password.
        timeout: seconds.
    """

    urls: tuple[str, ...]
    authorization: Secret = _NOTHING
    trusted: str = ""
    certificate: str = ""
    password: Secret = _NOTHING
    timeout: float = 10.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any, **more: Any) -> None:
        """An address that the registry names is none that anybody has allowed."""


@dataclass
class RegistryClient:
    """See the module. Raises UnavailableError E3133 when no registry answers after some tries, ConnectorError E3133 when it
    refuses."""

    address: RegistryAddress
    retries: Retries = _RETRIES
    _known: dict[int, RegisteredSchema | None] = field(default_factory=dict[int, "RegisteredSchema | None"])
    _registered: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def schema(self, number: int) -> RegisteredSchema:
        """The schema of an id; raises NoSchema."""
        if number not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            try:
                self._known[number] = self._read(number, self._ask(f"/schemas/ids/{number}"))
            except NoSchema:
                self._known[number] = None
        found = self._known[number]
        if found is None:
            raise NoSchema(f"the registry has no schema {number}")
        return found

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject; raises NoSchema."""
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return self._read(_integer(answer, "id"), answer)

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        answer = self._ask("/subjects")
        if not isinstance(answer, list):
            raise self._odd()
        return sorted(str(name) for name in answer)

    def register(self, subject: str, kind: str, text: str, *, made: bool = True) -> int:
        """The id of a schema of a subject, which gets it if it does not have it. `made`: false where that is not wanted; then
        raises NoSchema."""
        known = self._registered.get((subject, text))
        if known is None:
            body = {"schema": text, **({} if kind == "AVRO" else {"schemaType": kind})}
            path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if made else "")
            known = self._registered[subject, text] = _integer(self._ask(path, body), "id")
        return known

    def _read(self, number: int, answer: Any) -> RegisteredSchema:
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise self._odd()
        found: dict[str, str] = {}
        self._follow(answer.get("references") or [], found)
        return RegisteredSchema(number, str(answer.get("schemaType") or "AVRO"), answer["schema"], tuple(found.items()))

    def _follow(self, references: Any, found: dict[str, str]) -> None:
        """Put what is referred to behind what it refers to itself."""
        if not isinstance(references, list):
            raise self._odd()
        for reference in references:
            name, subject = str(reference.get("name")), str(reference.get("subject"))
            if name in found:
                continue
            if len(found) >= _MOST_REFERENCES:
                raise ConnectorError(f"a schema refers to more than {_MOST_REFERENCES} others", code="E3133")
            found[name] = ""
            answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/{int(reference.get('version', -1))}")
            if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
                raise self._odd()
            self._follow(answer.get("references") or [], found)
            del found[name]
            found[name] = answer["schema"]

    def _odd(self) -> ConnectorError:
        return ConnectorError(
            f"what is at {self._shown} answers otherwise than a schema registry",
            code="E3133",
            hint="check the option 'url' of the format",
        )

    @property
    def _shown(self) -> str:
        return masked_text(", ".join(self.address.urls))

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return retried(lambda: self._asked(path, body), self.retries, UnavailableError)

    def _asked(self, path: str, body: Mapping[str, Any] | None) -> Any:
        failure = ""
        for url in self.address.urls:
            try:
                return json.loads(self._sent(url.rstrip("/") + path, body))
            except urllib.error.HTTPError as error:
                with error:
                    told = masked_text(_told(error.read(4000)))
                if error.code == 404:
                    raise NoSchema(told) from error
                if error.code not in _PASSING:
                    raise ConnectorError(
                        f"the schema registry at {self._shown} refuses {path.partition('?')[0]}: HTTP {error.code} {told}",
                        code="E3133",
                        hint="check user and password, and whether the schema fits the older ones of its subject",
                    ) from error
                failure = f"HTTP {error.code} {told}"
            except ssl.SSLCertVerificationError as error:
                raise self._no_trust(error) from error
            except (OSError, HTTPException) as error:
                reason = getattr(error, "reason", error)
                if isinstance(reason, ssl.SSLCertVerificationError):
                    raise self._no_trust(reason) from error
                failure = masked_text(str(reason))
            except ValueError as error:
                raise self._odd() from error
        raise UnavailableError(
            f"the schema registry at {self._shown} does not answer: {failure}",
            code="E3133",
            hint="is it there, and is the option 'url' of the format what it is called from here?",
        )

    def _no_trust(self, error: ssl.SSLCertVerificationError) -> ConnectorError:
        return ConnectorError(
            f"the certificate of the schema registry at {self._shown} is not trusted: {error.verify_message}",
            code="E3133",
            hint="set 'ssl.truststore.location' of the format to a file of certificates (PEM)",
        )

    def _sent(self, url: str, body: Mapping[str, Any] | None) -> bytes:
        headers = {"Accept": f"{_MEDIA}, application/json"}
        if self.address.authorization:
            headers["Authorization"] = self.address.authorization.reveal()
        data = None
        if body is not None:
            headers["Content-Type"] = _MEDIA
            data = json.dumps(body).encode()
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=self._context()))
        opener = urllib.request.build_opener(*handlers)
        request = urllib.request.Request(url, data, headers, method="GET" if data is None else "POST")
        with opener.open(request, timeout=self.address.timeout) as answer:
            read = answer.read(_MOST_BYTES + 1)
        if len(read) > _MOST_BYTES:
            raise ConnectorError(f"the schema registry gives more than {_MOST_BYTES} bytes", code="E3133")
        return read

    def _context(self) -> ssl.SSLContext:
        address = self.address
        try:
            context = ssl.create_default_context(cafile=address.trusted or None)
            if address.certificate:
                context.load_cert_chain(address.certificate, password=address.password.reveal() or None)
        except (OSError, ssl.SSLError) as error:
            raise ConnectorError(
                f"the files of certificates for the schema registry cannot be used: {error}",
                code="E3133",
                hint="they are PEM here; `keytool -exportcert -rfc` and `openssl pkcs12` make it of Java's files",
            ) from error
        return context


def _integer(answer: Any, key: str) -> int:
    if not isinstance(answer, dict) or not isinstance(answer.get(key), int):
        raise ConnectorError(f"the schema registry gives no {key}", code="E3133")
    return answer[key]


def _told(raw: bytes) -> str:
    """What the registry says of an error."""
    text = raw.decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
    except ValueError:
        return text[:300]
    return str(found.get("message", text))[:300] if isinstance(found, dict) else text[:300]
