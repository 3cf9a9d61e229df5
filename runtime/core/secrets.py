"""What nobody should read over a shoulder: values of secret options, and credentials within URIs and other texts.

Wherever an option, a statement, a path or a message is shown or kept beside state, it passes one of these:

    shown_value("properties.sasl.jaas.config", "..")         # ******
    masked_text("cannot read s3://user:secret@bucket/x")     # cannot read s3://******@bucket/x
    masked_sql("CREATE TABLE t (..) WITH ('password' = 'x')")  # ... WITH ('password' = '******')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["MASK", "is_secret", "masked_sql", "masked_text", "shown_facts", "shown_value"]

MASK = "******"

_WORDS = (
    r"passw(?:or)?d|passphrase|pwd|secret|token|credential|jaas|api[-_.]?key|access[-_.]?key|private[-_.]?key|account[-_.]?key|"
    r"shared[-_.]?key|signature|connection[-_.]?string|authori[sz]ation|auth-params|basic-auth|keystore\.key|ssl\.key$"
)
_SECRET_KEY = re.compile(_WORDS + r"|(?:^|\.)sasl\.(?!mechanism$|kerberos\.service\.name$)", re.IGNORECASE)
# `scheme://user:secret@`, also where the secret has a slash or an at sign in it; `scheme://secret@`.
_USER = re.compile(r"(\b[a-z][a-z0-9+.-]*:(?:[a-z0-9]+:)?//)(?:[^\s'\"/@:]*:[^\s'\"]*|[^\s'\"/@]+)@", re.IGNORECASE)
_PARAMETER = re.compile(rf"([?&;,][\w.%-]*(?:{_WORDS}|sig|key|auth)[\w.%-]*=)[^&;,\s'\"]+", re.IGNORECASE)
_ASSIGNED = re.compile(rf"([\w.-]*(?:{_WORDS})[\w.-]*\\?=)(\"[^\"]*\"?|[^\s;,&'\"]+)", re.IGNORECASE)
_PAIR = re.compile(r"'((?:[^']|'')*)'(\s*=\s*)'((?:[^']|'')*)'")


def is_secret(key: str) -> bool:
    """Whether the value of an option is a secret, by its key."""
    return _SECRET_KEY.search(key) is not None


def shown_value(key: str, value: str) -> str:
    """The value of an option as it is shown."""
    return MASK if is_secret(key) else masked_text(value)


def masked_text(text: str) -> str:
    """A text without the credentials of URIs, and without values that are assigned to secrets (`password=..`)."""
    if "=" not in text and "@" not in text:
        return text
    text = _USER.sub(rf"\g<1>{MASK}@", text)
    text = _PARAMETER.sub(rf"\g<1>{MASK}", text)
    return _ASSIGNED.sub(rf"\g<1>{MASK}", text)


def masked_sql(text: str, *, aligned: bool = False) -> str:
    """A statement without its secrets. `aligned`: what is left stands where it stood, as long as nothing but values is
    hidden."""

    def pair(found: re.Match[str]) -> str:
        key, between, value = found.groups()
        hidden = shown_value(key.replace("''", "'"), value)
        if hidden == value:
            return found[0]
        if aligned:
            hidden = "*" * len(value)
        return f"'{key}'{between}'{hidden}'"

    masked = _PAIR.sub(pair, text)
    if not aligned:
        return masked_text(masked)
    for pattern in (_USER, _PARAMETER, _ASSIGNED):
        masked = pattern.sub(_stars, masked)
    return masked


def _stars(found: re.Match[str]) -> str:
    """Stars in the place of what follows the first group, as many as it has characters."""
    rest = len(found[0]) - len(found[1])
    return found[1] + ("*" * (rest - 1) + "@" if found[0].endswith("@") else "*" * rest)


def shown_facts(facts: Any) -> Any:
    """What a table says of itself (`describe()`), without secrets: mappings, lists, pairs of key and value, and texts."""
    if isinstance(facts, Mapping):
        return {k: MASK if isinstance(k, str) and is_secret(k) and v else shown_facts(v) for k, v in facts.items()}
    if isinstance(facts, list | tuple):
        if len(facts) == 2 and all(isinstance(part, str) for part in facts) and is_secret(facts[0]):
            return type(facts)((facts[0], MASK))
        return type(facts)(shown_facts(part) for part in facts)
    return masked_text(facts) if isinstance(facts, str) else facts
