"""Secrets by name: options say `${secret:name}`, `${env:NAME}` or `${file:/path}`, and the value takes that place when a
connector is told its options, and nowhere else.

Whatever has taken a place is masked in every text from then on (`runtime.core.secrets.hide`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from runtime.core.errors import OptionError
from runtime.core.secrets import LEAST_HIDDEN, REFERENCE, hide
from sqlengine.roles.authority import Authority
from sqlengine.roles.privileges import Target
from sqlengine.roles.secret import Secret

__all__ = ["resolved"]

_MOST_BYTES = 64 * 1024
"""Of a file with a secret."""


def resolved(options: Mapping[str, str], secrets: Mapping[str, Secret], owner: Authority | None) -> dict[str, str]:
    """Options with the values that they refer to.

    Args:
        owner: of what has the options: it needs USAGE on secrets, and has to be a superuser for the others; None: nobody is
            asked.
    Raises:
        OptionError: E1531 for what is not there. AccessError: for what is not for the owner.
    """
    return {key: _value(key, value, secrets, owner) for key, value in options.items()}


def _value(key: str, value: str, secrets: Mapping[str, Secret], owner: Authority | None) -> str:
    def put(found: re.Match[str]) -> str:
        kind, name = found[1], found[2]
        if kind == "secret":
            secret = secrets.get(name)
            if owner is not None:
                owner.require("USAGE", Target("secret", (name,)))
            if secret is None:
                raise _missing(key, f'there is no secret "{name}"', "CREATE SECRET makes it; SHOW SECRETS lists them")
            inner = REFERENCE.fullmatch(secret.reveal())
            return secret.reveal() if inner is None else _outside(key, inner[1], inner[2])
        if owner is not None and not owner.is_superuser:
            raise owner.denied(
                f"option '{key}'", None, f"superusers refer to ${{{kind}:..}}; use a secret, with USAGE on it"
            )
        return _outside(key, kind, name)

    return REFERENCE.sub(put, value)


def _outside(key: str, kind: str, name: str) -> str:
    """What the environment, or a file, has."""
    if kind == "env":
        found = os.environ.get(name)
        if found is None:
            raise _missing(key, f"the environment has no variable {name}", "set it before the program starts")
    else:
        try:
            with open(name, "rb") as file:
                found = file.read(_MOST_BYTES + 1).decode().removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            what = getattr(error, "strerror", None) or "it is no text"
            raise _missing(
                key, f"the file {name} cannot be read: {what}", "name a file that has the secret alone"
            ) from None
        if len(found) > _MOST_BYTES:
            raise _missing(
                key, f"the file {name} has more than {_MOST_BYTES} bytes", "name a file that has the secret alone"
            )
    if len(found) < LEAST_HIDDEN:
        raise _missing(
            key, f"what ${{{kind}:{name}}} gives has fewer than {LEAST_HIDDEN} characters", "such a text is no secret"
        )
    hide(found)
    return found


def _missing(key: str, what: str, hint: str) -> OptionError:
    return OptionError(f"option '{key}': {what}", code="E1531", hint=hint)
