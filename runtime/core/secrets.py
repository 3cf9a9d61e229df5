"""What nobody should read over a shoulder: values of secret options, and credentials within URIs and other texts.

Wherever an option, a statement, a path or a message is shown or kept beside state, it passes one of these:

    shown_value("properties.sasl.jaas.config", "..")         # ******
    masked_text("cannot read s3://user:secret@bucket/x")     # cannot read s3://******@bucket/x
    masked_sql("CREATE TABLE t (..) WITH ('password' = 'x')")  # ... WITH ('password' = '******')
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from runtime.core.likeness import edits

__all__ = [
    "LEAST_HIDDEN",
    "MASK",
    "REFERENCE",
    "hide",
    "Secret",
    "is_secret",
    "masked_source",
    "masked_sql",
    "masked_text",
    "refers",
    "secret_keys",
    "shown_facts",
    "shown_value",
    "without_values",
]

MASK = "******"
REFERENCE = re.compile(r"\$\{(secret|env|file):([^{}]+)\}")
"""In an option, what stands for a secret: its kind, and its name."""
LEAST_HIDDEN = 4
"""Shorter texts are in too many others to be masked."""
_hidden: tuple[str, ...] = ()

_WORDS = (
    r"passw(?:or)?d|passphrase|passcode|pwd|secret|token|credential|jaas|bearer|http-headers|"
    r"(?:api|access|private|account|shared|service|encryption|signing)[-_.]?key|"
    r"signature|connection[-_.]?string|authori[sz]ation|auth-params|basic-auth|keystore\.key|ssl\.key$"
)
_STEMS = (
    "pass",
    "pwd",
    "secret",
    "token",
    "cred",
    "jaas",
    "bearer",
    "http-h",
    "key",
    "sig",
    "connection",
    "auth",
    "sasl",
)
"""Each match of the patterns below holds one of these."""
_SECRET_KEY = re.compile(
    _WORDS + r"|(?:^|[-_.])(?:pass|auth)$|(?:^|\.)sasl\.(?!mechanism$|kerberos\.service\.name$)", re.IGNORECASE
)
# `scheme://user:secret@`, also where the secret has a slash or an at sign in it; `scheme://secret@`.
_USER = re.compile(r"(\b[a-z][a-z0-9+.-]*:(?:[a-z0-9]+:)?//)(?:[^\s'\"/@:]*:[^\s'\"]*|[^\s'\"/@]+)@", re.IGNORECASE)
_PARAMETER = re.compile(rf"([?&;,][\w.%-]*(?:{_WORDS}|sig|key|auth)[\w.%-]*=)[^&;,\s'\"]+", re.IGNORECASE)
_ASSIGNED = re.compile(rf"([\w.-]*(?:{_WORDS})[\w.-]*\\?=)(\"[^\"]*\"?|[^\s;,&'\"]+)", re.IGNORECASE)
_TOKEN = re.compile(
    r"""
    (?P<hint> /\*\+ | \*/ ) | (?P<gap> \s+ | --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<text> (?:[A-Za-z]&?)?+ '(?:[^']|'')*+ (?:'|\Z) ) | (?P<name> `[^`]*`? | "[^"]*"? | \w+(?:[.-]\w+)* )
    | (?P<sign> [:=]=? | => ) | (?P<end> [,();] ) | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
"""SQL, and what is nearly SQL: texts and comments that are not closed end with it."""
_OF_SECRETS = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:CREATE|ALTER)\s+SECRET\b", re.IGNORECASE | re.DOTALL)
_OF_ROLES = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:CREATE|ALTER)\s+(?:ROLE|USER)\b", re.IGNORECASE | re.DOTALL)
_PASSWORD = re.compile(r"(\bPASSWORD\s+(?:[A-Za-z]&?)?')(?:[^']|'')*+", re.IGNORECASE)
_MISSPELT = ("password", "passwd", "passphrase", "secret", "credential", "credentials", "apikey")


class Secret:
    """A text that no message, log or plan shows: only `reveal` gives it. Two are equal when their texts are. It can be
    pickled, because tasks in other processes need it, too."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text, for the library that needs it, and nothing else."""
        return self._text

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)


def _may_hold_secrets(text: str) -> bool:
    """Whether one of the words can be in a text: a quick look, because statements may have megabytes of rows."""
    lowered = text.lower()
    return any(stem in lowered for stem in _STEMS)


def secret_keys() -> str:
    """The regular expression that is found in keys of secrets, as Python and Java read it."""
    return f"(?i){_SECRET_KEY.pattern}"


def is_secret(key: str) -> bool:
    """Whether the value of an option is a secret, by its key."""
    return _SECRET_KEY.search(key) is not None


def shown_value(key: str, value: str) -> str:
    """The value of an option as it is shown."""
    return MASK if is_secret(key) else masked_text(value)


def refers(options: Mapping[str, str]) -> bool:
    """Whether an option refers to a secret."""
    return any("${" in value and REFERENCE.search(value) is not None for value in options.values())


def hide(value: str) -> None:
    """From now on no text of this process shows a value: it is that of a secret."""
    global _hidden
    found = {value, *value.splitlines()} - set(_hidden)
    # A long one first: a part of it may be a secret of its own.
    _hidden = tuple(sorted((*_hidden, *(v for v in found if len(v) >= LEAST_HIDDEN)), key=len, reverse=True))


def masked_text(text: str) -> str:
    """A text without the values of secrets, without the credentials of URIs, and without values that are assigned to
    secrets (`password=..`)."""
    for value in _hidden:
        text = text.replace(value, MASK)
    if "@" in text and "//" in text:
        text = _USER.sub(rf"\g<1>{MASK}@", text)
    if "=" in text and _may_hold_secrets(text):
        text = _PARAMETER.sub(rf"\g<1>{MASK}", text)
        text = _ASSIGNED.sub(rf"\g<1>{MASK}", text)
    return text


def masked_sql(text: str) -> str:
    """A statement without its secrets."""
    if _OF_ROLES.match(text) is not None:
        text = _PASSWORD.sub(rf"\g<1>{MASK}", text)
    if _OF_SECRETS.match(text) is not None:
        return re.sub(r"'(?:[^']|'')*(?:'|\Z)", f"'{MASK}'", text)
    return masked_text(_replaced(text, ((start, end, MASK) for start, end in _values(text))))


def masked_source(text: str) -> str:
    """A statement that may be wrong, without its secrets: what is left stands where it stood. Rather hides too much: the
    values of misspelt keys, and those that are not written as they should be."""
    masked = _replaced(text, ((start, end, _stars(text[start:end])) for start, end in _wrong_values(text)))
    if _OF_SECRETS.match(masked) is not None:
        head = _OF_SECRETS.match(masked)
        assert head is not None
        quote = re.search("['\"]", masked[head.end() :])
        at = len(masked) if quote is None else head.end() + quote.end()
        masked = masked[:at] + _stars(masked[at:])
    if "//" in masked:
        masked = _USER.sub(_starred, masked)
    if _may_hold_secrets(masked):
        masked = _ASSIGNED.sub(_starred, _PARAMETER.sub(_starred, masked))
    return masked


def without_values(message: str, source: str) -> str:
    """What is said of a statement, without the values of secrets that it quotes."""
    if not any(quote in message for quote in "'\"`"):
        return message
    for start, end in _wrong_values(source):
        value = re.escape(source[start:end])
        message = re.sub(rf"""(['"`]){value}(['"`])""", rf"\g<1>{MASK}\g<2>", message)
    return message


@lru_cache(maxsize=1)
def _wrong_values(text: str) -> tuple[tuple[int, int], ...]:
    """Where values of secrets stand in a statement that is wrong: several errors may be made of it."""
    return tuple(_values(text, wrong=True))


def _values(text: str, *, wrong: bool = False) -> Iterator[tuple[int, int]]:
    """Where the values of secret options stand in a statement: start and end. With `wrong`, also where the key is
    misspelt, the sign between them is another one or missing, or a quote."""
    if not wrong and ("=" not in text or not _may_hold_secrets(text)):
        return
    tokens = [token for token in _TOKEN.finditer(text) if token.lastgroup != "gap"]
    setting = bool(tokens) and tokens[0][0].upper() in ("SET", "RESET")
    in_hint, done = False, 0
    for i, token in enumerate(tokens):
        if token.lastgroup == "hint":
            in_hint = token[0] == "/*+"
        if i < done or token.lastgroup not in ("text", "name"):
            continue
        at = i + 1
        while at < len(tokens) and tokens[at].lastgroup == "sign":
            at += 1
        signed = at > i + 1
        if wrong and not signed and token.lastgroup == "text" and _is_pair_with_comma(tokens, at):
            at += 1
        if at == len(tokens):
            return
        # Of rows of constants nothing is left here, so that a key is looked at where a value may follow.
        if tokens[at].lastgroup in ("end", "hint"):
            continue
        start, end = _inside(token)
        key = text[start:end]
        if not is_secret(key) and not (wrong and _nearly_secret(key)):
            continue
        quoted = tokens[at].lastgroup == "text"
        if wrong:
            is_value = (
                quoted or tokens[at][0][0] == '"' or (signed and (token.lastgroup == "text" or setting)) or "=" in key
            )
        else:
            is_value = quoted and signed and (token.lastgroup == "text" or in_hint)
        if not is_value:
            continue
        yield _inside(tokens[at])
        done = at + 1
        while wrong and done < len(tokens) and tokens[done].lastgroup not in ("end", "hint"):
            glued = tokens[done].start() == tokens[done - 1].end()
            if not glued and tokens[done].lastgroup != "text":
                break
            yield _inside(tokens[done])
            done += 1


def _is_pair_with_comma(tokens: Sequence[re.Match[str]], at: int) -> bool:
    """Whether a comma stands where `=` should: a text follows that is no key itself."""
    if at + 1 >= len(tokens) or tokens[at][0] != "," or tokens[at + 1].lastgroup != "text":
        return False
    return at + 2 >= len(tokens) or tokens[at + 2].lastgroup != "sign"


def _inside(token: re.Match[str]) -> tuple[int, int]:
    """Where the contents of a token stand: without its quotes and what is in front of them."""
    start, end = token.span()
    quote = re.search("['\"`]", token[0])
    if quote is None:
        return start, end
    start += quote.end()
    return start, end - 1 if end > start and token[0][-1] == quote[0] else end


@lru_cache(maxsize=256)
def _nearly_secret(key: str) -> bool:
    """Whether a key is that of a secret but for a letter."""
    parts = [part for part in re.split(r"[-_.\s]", key.lower()) if len(part) > 3]
    return any(edits(part, word, 1) <= 1 for part in parts for word in _MISSPELT)


def _replaced(text: str, places: Iterable[tuple[int, int, str]]) -> str:
    found: list[str] = []
    last = 0
    for start, end, shown in places:
        found += text[last:start], shown
        last = end
    return "".join((*found, text[last:]))


def _stars(text: str) -> str:
    """Stars in the place of a text, as long and with as many lines."""
    return re.sub(r"[^\n]", "*", text)


def _starred(found: re.Match[str]) -> str:
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
