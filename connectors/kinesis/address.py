"""Which stream, and who asks: options of tables as in Flink's connector, and the client.

A client of AWS takes addresses from many places; the one that is asked here is that of the stream's region, or the option
`aws.endpoint`, and both are looked at by a server that says which hosts may be reached.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.http.address import read_url
from connectors.options import TableOptions
from runtime.core.errors import ConnectorError, OptionError, UnavailableError
from runtime.core.options import duration_option, text_option
from runtime.core.secrets import Secret

__all__ = ["ADDRESS_OPTIONS", "Address", "client_of", "read_address", "telling"]

ARN = text_option("stream.arn", "", "the stream, such as 'arn:aws:kinesis:eu-west-1:123456789012:stream/orders'")
REGION = text_option("aws.region", "", "the region, which is that of the stream")
ENDPOINT = text_option("aws.endpoint", "", "another address than that of the region, such as 'http://localhost:4566'")
PROVIDER = text_option(
    "aws.credentials.provider",
    "AUTO",
    "where credentials come from: 'AUTO' takes those of the environment, 'BASIC' those of the options, 'PROFILE' a named profile, "
    "'ASSUME_ROLE' those of a role",
    ("AUTO", "BASIC", "PROFILE", "ASSUME_ROLE", "ENV_VAR"),
)
KEY_ID = text_option("aws.credentials.basic.accesskeyid", "", "the id of the access key, for 'BASIC'")
SECRET = text_option("aws.credentials.basic.secretkey", "", "the secret key; better '${secret:name}'")
PROFILE = text_option("aws.credentials.profile.name", "", "the profile, for 'PROFILE'")
ROLE = text_option("aws.credentials.role.arn", "", "the role, for 'ASSUME_ROLE'")
SESSION = text_option("aws.credentials.role.sessionName", "sqlengine", "the name of the session of the role")
EXTERNAL = text_option("aws.credentials.role.externalId", "", "what the role wants to be told")
TIMEOUT = duration_option("answer-timeout", 60_000, "how long an answer may take")
ADDRESS_OPTIONS = (ARN, REGION, ENDPOINT, PROVIDER, KEY_ID, SECRET, PROFILE, ROLE, SESSION, EXTERNAL, TIMEOUT)

_ARN = re.compile(r"arn:aws[a-z-]*:kinesis:(?P<region>[a-z0-9-]+):\d{12}:stream/(?P<name>[A-Za-z0-9_.-]{1,128})")
_ROLE_SECONDS = 1800.0
_PASSING = frozenset(
    (
        "ProvisionedThroughputExceededException", "LimitExceededException", "KMSThrottlingException", "InternalFailure",
        "InternalFailureException", "ServiceUnavailable", "Throttling", "ThrottlingException", "RequestTimeout",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Address:
    """A stream, and how it is reached. No text of it has the secrets. `timeout`: seconds."""

    arn: str
    region: str
    name: str
    endpoint: str
    provider: str
    key_id: Secret = field(repr=False)
    secret: Secret = field(repr=False)
    profile: str = ""
    role: str = ""
    session: str = ""
    external: Secret = field(default=Secret(""), repr=False)
    timeout: float = 60.0

    def __str__(self) -> str:
        return f"{self.name} in {self.region}"


def read_address(options: TableOptions) -> Address:
    """Raises OptionError E1504 for what is missing, E1500 for what is not understood."""
    arn = options.required(ARN)
    found = _ARN.fullmatch(arn)
    if found is None:
        raise OptionError(
            "option 'stream.arn' names no stream",
            hint="write it as 'arn:aws:kinesis:eu-west-1:123456789012:stream/orders'",
        )
    region, provider = options.get(REGION) or found["region"], options.get(PROVIDER).upper()
    if region != found["region"]:
        raise OptionError(
            f"option 'aws.region' is '{region}', and the stream is in '{found['region']}'", hint="leave it out"
        )
    needed = {"BASIC": (KEY_ID, SECRET), "PROFILE": (PROFILE,), "ASSUME_ROLE": (ROLE,)}.get(provider, ())
    for option in needed:
        options.required(option)
    endpoint = options.get(ENDPOINT)
    if endpoint and (address := read_url(endpoint, ENDPOINT.key)).target != "/":
        raise OptionError(f"option 'aws.endpoint' has a path: '{address}'", hint="such as 'http://localhost:4566'")
    return Address(
        arn,
        region,
        found["name"],
        endpoint,
        provider,
        options.secret(KEY_ID),
        options.secret(SECRET),
        options.get(PROFILE),
        options.get(ROLE),
        options.get(SESSION),
        options.secret(EXTERNAL),
        max(0.1, options.get(TIMEOUT) / 1000),
    )


def _library() -> Any:
    try:
        import boto3
    except ImportError as error:
        raise ConnectorError(
            "the client of AWS is not installed", code="E3270", hint="pip install 'sqlengine[kinesis]'"
        ) from error
    return boto3


def client_of(address: Address) -> Any:
    """A client (boto3) for the stream, which threads may share. Credentials of a role end, so its clients are made anew. Raises
    what `telling` makes of errors."""
    lasts = _ROLE_SECONDS if address.provider == "ASSUME_ROLE" else float("inf")
    # Streams of one account share it.
    return _client_of(replace(address, arn="", name=""), os.getpid(), int(time.monotonic() // lasts))


@functools.lru_cache(maxsize=16)
def _client_of(address: Address, process: int, since: int) -> Any:
    # A process that was forked must not share connections.
    del process, since
    library = _library()
    with telling(address):
        from botocore.config import Config

        # The engine tries again itself, and says so.
        config = Config(
            connect_timeout=10,
            read_timeout=address.timeout,
            retries={"total_max_attempts": 1},
            max_pool_connections=64,
            ignore_configured_endpoint_urls=True,
        )
        session = _session(library, address, config)
        return session.client(
            "kinesis", region_name=address.region, endpoint_url=address.endpoint or None, config=config
        )


def _session(library: Any, address: Address, config: Any) -> Any:
    match address.provider:
        case "BASIC":
            return library.Session(
                aws_access_key_id=address.key_id.reveal(), aws_secret_access_key=address.secret.reveal()
            )
        case "PROFILE":
            return library.Session(profile_name=address.profile)
        case "ASSUME_ROLE":
            more = {"ExternalId": address.external.reveal()} if address.external else {}
            given = library.Session().client("sts", region_name=address.region, config=config)
            found = given.assume_role(RoleArn=address.role, RoleSessionName=address.session, **more)["Credentials"]
            return library.Session(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
        case _:
            return library.Session()


@contextmanager
def telling(address: Address) -> Generator[None]:
    """Errors of the client as UnavailableError E3150, what passes, or ConnectorError E3271."""
    _library()
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    try:
        yield
    except ClientError as error:
        told = error.response.get("Error", {})
        code, status = str(told.get("Code")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = f"stream {address}: {code}: {told.get('Message', '')}"
        if code in _PASSING or status >= 500:
            raise UnavailableError(message, hint="it is asked again") from error
        raise ConnectorError(
            message, code="E3271", hint="check the stream, the credentials, and what they allow"
        ) from error
    except HTTPClientError as error:
        raise UnavailableError(
            f"stream {address}: {error}", hint="is the service there, and reachable from here?"
        ) from error
    except BotoCoreError as error:
        raise ConnectorError(
            f"stream {address}: {error}", code="E3271", hint="check 'aws.credentials.provider' and the region"
        ) from error
