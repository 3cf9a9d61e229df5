"""The hint LOOKUP: how the table of a lookup join is asked.

Source: Flink 2.3, "Hints", LOOKUP; `LookupJoinHintOptions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from runtime.core.errors import BindError, OptionError, Span, did_you_mean
from runtime.core.options import parse_duration
from runtime.plan.parts import LookupRequests, LookupRetry
from sqlengine.parse.nodes import HintCall
from sqlengine.parse.spans import span_of

__all__ = ["LookupHint", "lookup_hint"]

T = TypeVar("T")

_RETRY = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")
_KNOWN = ("table", "async", "output-mode", "capacity", "timeout", *_RETRY, "shuffle")


class LookupHint(NamedTuple):
    """What it says of one relation."""

    requests: LookupRequests
    retry: LookupRetry | None


def lookup_hint(hint: HintCall) -> tuple[str, LookupHint]:
    """The relation that a hint names, and what it says of it.

    Raises:
        BindError: E1242 for an option that is unknown, missing, or has a wrong value.
    """
    given = hint.options
    spans = {option.args["this"]: span_of(option) for option in hint.args.get("options") or ()}
    for key in given:
        if key not in _KNOWN:
            _refuse(
                f"the hint LOOKUP has no option '{key}'",
                spans.get(key),
                did_you_mean(key, _KNOWN) or "it has: " + ", ".join(f"'{k}'" for k in _KNOWN),
            )
    if hint.args.get("expressions"):
        _refuse("the hint LOOKUP has options only", span_of(hint), "write LOOKUP('table' = 'name', ...)")
    if "table" not in given:
        _refuse("the hint LOOKUP names no table", span_of(hint), "write LOOKUP('table' = 'name', ...)")

    def read(key: str, how: Callable[[str], T], wanted: str) -> T | None:
        if key not in given:
            return None
        try:
            return how(given[key])
        except (ValueError, OptionError):
            _refuse(f"option '{key}' of the hint LOOKUP cannot be '{given[key]}'", spans.get(key), f"it is {wanted}")

    asynchronous = read("async", _boolean, "'true' or 'false'")
    read("shuffle", _boolean, "'true' or 'false'")
    read("output-mode", lambda text: _one_of(text, "ordered", "allow_unordered"), "'ordered' or 'allow_unordered'")
    capacity = read("capacity", _positive, "a whole number of at least 1")
    timeout = read("timeout", _duration, "a duration such as '300 s'")
    read("retry-predicate", lambda text: _one_of(text, "lookup_miss"), "'lookup_miss'")
    read("retry-strategy", lambda text: _one_of(text, "fixed_delay"), "'fixed_delay'")
    delay = read("fixed-delay", _duration, "a duration such as '10 s'")
    attempts = read("max-attempts", _positive, "a whole number of at least 1")
    missing = [key for key in _RETRY if key not in given]
    if missing and len(missing) < len(_RETRY):
        lacks = ", ".join(f"'{key}'" for key in missing)
        first = next(key for key in _RETRY if key in given)
        _refuse(
            f"the hint LOOKUP lacks {lacks}",
            spans.get(first),
            "to ask again takes 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' and 'max-attempts'",
        )
    retry = None if delay is None or attempts is None else LookupRetry(delay, attempts)
    return given["table"], LookupHint(LookupRequests(asynchronous, capacity, timeout), retry)


def _refuse(what: str, span: Span | None, hint: str) -> NoReturn:
    raise BindError(what, code="E1242", span=span, hint=hint)


def _boolean(text: str) -> bool:
    return _one_of(text, "true", "false") == "true"


def _one_of(text: str, *values: str) -> str:
    if text.lower() not in values:
        raise ValueError
    return text.lower()


def _positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def _duration(text: str) -> int:
    milliseconds = parse_duration(text)
    if milliseconds < 1:
        raise ValueError
    return milliseconds
