"""Configuration: declared options, their types and defaults, and a set of values for them.

An option is declared once, where it is used. `Options` holds text values by key, as `SET` and `-D` give them, and reads
them through the declaration. Unknown keys under our own prefixes are errors with a "did you mean".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from runtime.core.errors import OptionError, did_you_mean
from runtime.core.secrets import shown_value

__all__ = [
    "Option",
    "Options",
    "bool_option",
    "duration_option",
    "float_option",
    "int_option",
    "parse_duration",
    "parse_memory",
    "text_option",
]

T = TypeVar("T")


class Option(Generic[T]):
    """A named option with a reader from text; `choices` limits the values."""

    def __init__(
        self, key: str, default: T, read: type[T] | object, description: str, choices: tuple[str, ...] = ()
    ) -> None:
        self.key = key
        self.default = default
        self.description = description
        self.choices = choices
        self._read = read

    def read(self, text: str) -> T:
        """The value of a text; raises OptionError when it is not one."""
        shown = shown_value(self.key, text)
        if self.choices and text.lower() not in {c.lower() for c in self.choices}:
            raise OptionError(
                f"option '{self.key}' cannot be '{shown}'",
                hint="it is one of: " + ", ".join(f"'{c}'" for c in self.choices),
            )
        try:
            return self._read(text)  # type: ignore[operator, no-any-return]
        except OptionError as error:
            raise OptionError(
                f"option '{self.key}' cannot be '{shown}'", hint=error.hint or self.description
            ) from error
        except ValueError as error:
            raise OptionError(f"option '{self.key}' cannot be '{shown}': {error}", hint=self.description) from error


def text_option(key: str, default: str, description: str, choices: tuple[str, ...] = ()) -> Option[str]:
    return Option(key, default, str, description, choices)


def int_option(key: str, default: int, description: str) -> Option[int]:
    return Option(key, default, _read_int, description)


def bool_option(key: str, default: bool, description: str) -> Option[bool]:
    return Option(key, default, _read_bool, description)


def float_option(key: str, default: float, description: str) -> Option[float]:
    return Option(key, default, _read_float, description)


def duration_option(key: str, default: int, description: str) -> Option[int]:
    """A duration in milliseconds."""
    return Option(key, default, parse_duration, description)


class Options:
    """Option values by key. Keys and values are text; a layer may stand over a parent (`child`)."""

    def __init__(self, values: Mapping[str, str] | None = None, parent: Options | None = None) -> None:
        self._values = dict(values or {})
        self._parent = parent

    def child(self, values: Mapping[str, str] | None = None) -> Options:
        """A layer whose values win over this one's."""
        return Options(values, self)

    def get(self, option: Option[T]) -> T:
        text = self.text(option.key)
        return option.default if text is None else option.read(text)

    def text(self, key: str) -> str | None:
        if key in self._values:
            return self._values[key]
        return self._parent.text(key) if self._parent is not None else None

    def set(self, key: str, value: str) -> None:
        self._values[key] = value

    def reset(self, key: str | None = None) -> None:
        if key is None:
            self._values.clear()
        else:
            self._values.pop(key, None)

    def as_dict(self) -> dict[str, str]:
        merged = self._parent.as_dict() if self._parent is not None else {}
        return {**merged, **self._values}

    def __iter__(self) -> Iterator[str]:
        return iter(self.as_dict())

    def __contains__(self, key: str) -> bool:
        return self.text(key) is not None


def _read_int(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError("it is a whole number") from error


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError("it is a number") from error


def _read_bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("true", "1", "yes", "on"):
        return True
    if lowered in ("false", "0", "no", "off"):
        return False
    raise ValueError("it is true or false")


_DURATION = re.compile(r"(\d+)\s*([a-zA-Zµ]*)")
_UNITS: dict[str, float] = {"": 1}
for _names, _factor in (
    ("ns nano nanos nanosecond nanoseconds", 1e-6),
    ("us µs micro micros microsecond microseconds", 1e-3),
    ("ms milli millis millisecond milliseconds", 1),
    ("s sec secs second seconds", 1000),
    ("m min mins minute minutes", 60_000),
    ("h hour hours", 3_600_000),
    ("d day days", 86_400_000),
):
    _UNITS.update(dict.fromkeys(_names.split(), _factor))


def parse_duration(text: str) -> int:
    """Milliseconds of a Flink duration: `10 s`, `5min`, `1 h`, `500` (a bare number is milliseconds)."""
    matched = _DURATION.fullmatch(text.strip())
    if matched is None or matched[2].lower() not in _UNITS:
        hint = did_you_mean(matched[2].lower(), _UNITS) if matched and matched[2] else None
        raise OptionError(f"'{text}' is not a duration", hint=hint or "write it like '10 s', '5 min' or '1 h'")
    return int(int(matched[1]) * _UNITS[matched[2].lower()])


_MEMORY = re.compile(r"(\d+)\s*([a-zA-Z]*)")


def parse_memory(text: str) -> int:
    """Bytes of a Flink memory size: `64mb`, `1 g`, `512k`."""
    matched = _MEMORY.fullmatch(text.strip())
    suffix = matched[2].lower() if matched else ""
    powers = {"": 0, "b": 0, "bytes": 0, "k": 1, "kb": 1, "m": 2, "mb": 2, "g": 3, "gb": 3, "t": 4, "tb": 4}
    if matched is None or suffix not in powers:
        raise OptionError(f"'{text}' is not a memory size", hint="write it like '64mb' or '1gb'")
    return int(matched[1]) * 1024 ** powers[suffix]
