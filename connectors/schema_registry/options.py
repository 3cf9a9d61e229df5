"""The options of formats whose schemas are in a registry, named as in Flink 2.3 (`avro-confluent`)."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from connectors.options import TableOptions
from connectors.schema_registry.client import RegistryAddress
from runtime.core.errors import OptionError, did_you_mean
from runtime.core.options import Option, text_option
from runtime.core.secrets import Secret, masked_text

__all__ = ["PROPERTIES", "REGISTRY_OPTIONS", "SUBJECT", "URL", "read_address", "registers"]

PROPERTIES = "properties."
URL = text_option("url", "", "the address of the registry; several that are the same are separated by commas")
SUBJECT = text_option(
    "subject", "", "the subject whose schema is written, and tells columns; of topics it is TOPIC-value or TOPIC-key"
)
TRUSTED = text_option("ssl.truststore.location", "", "a file of certificates (PEM) that are trusted")
TRUSTED_PASSWORD = text_option("ssl.truststore.password", "", "accepted for compatibility; a file of PEM has none")
CERTIFICATE = text_option("ssl.keystore.location", "", "a file with the client's certificate and key (PEM)")
PASSWORD = text_option("ssl.keystore.password", "", "the password of that key")
BASIC = text_option(
    "basic-auth.credentials-source",
    "",
    "where user and password are: in 'user-info', or in the URL",
    ("USER_INFO", "URL"),
)
USER_INFO = text_option("basic-auth.user-info", "", "user:password")
BEARER = text_option("bearer-auth.credentials-source", "", "where the token is", ("STATIC_TOKEN",))
TOKEN = text_option("bearer-auth.token", "", "the token")
REGISTRY_OPTIONS: tuple[Option[Any], ...] = (
    URL, SUBJECT, TRUSTED, TRUSTED_PASSWORD, CERTIFICATE, PASSWORD, BASIC, USER_INFO, BEARER, TOKEN,
)  # fmt: skip
_KNOWN = ("auto.register.schemas", "http.connect.timeout.ms", "http.read.timeout.ms")


def read_address(read: TableOptions, properties: dict[str, str], where: str) -> RegistryAddress:
    """Where the registry is, and how it is asked.

    Args:
        properties: options for the client, without their prefix.
        where: for messages, such as "format 'avro-confluent'".

    Raises:
        OptionError: E1504 no address, or an option that is wrong.
    """
    for key in properties:
        if key not in _KNOWN:
            raise OptionError(
                f"unknown option '{PROPERTIES}{key}' of {where}", code="E1503", hint=did_you_mean(key, _KNOWN)
            )
    urls: list[str] = []
    user = Secret("")
    for url in read.required(URL).split(","):
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError(
                f"option '{URL.key}' of {where} cannot be '{masked_text(url)}'", hint="such as 'https://registry:8081'"
            )
        if "@" in parts.netloc:
            named, _, host = parts.netloc.rpartition("@")
            user = Secret(unquote(named))
            parts = parts._replace(netloc=host)
        urls.append(urlunsplit(parts._replace(query="", fragment="")))
    if read.has(USER_INFO):
        user = read.secret(USER_INFO)
    for option in (BASIC, BEARER):
        read.get(option)  # A wrong one is told. What is given says the rest.
    authorization = Secret("")
    if user:
        authorization = Secret("Basic " + base64.b64encode(user.reveal().encode()).decode())
    if read.has(TOKEN):
        authorization = Secret(f"Bearer {read.secret(TOKEN).reveal()}")
    try:
        millis = int(properties.get("http.read.timeout.ms", properties.get("http.connect.timeout.ms", "10000")))
    except ValueError as error:
        raise OptionError(f"the timeouts of {where} are milliseconds") from error
    return RegistryAddress(
        tuple(urls),
        authorization,
        read.get(TRUSTED),
        read.get(CERTIFICATE),
        read.secret(PASSWORD),
        max(millis, 1) / 1000,
    )


def registers(properties: dict[str, str]) -> bool:
    """Whether a schema that the subject does not have is registered."""
    return properties.get("auto.register.schemas", "true").lower() != "false"
