"""Patterns of PostgreSQL's TO_CHAR, in the letters of DATE_FORMAT (those of Java's `DateTimeFormatter`).

Source: PostgreSQL's manual, "Data Type Formatting Functions". A pattern that DATE_FORMAT cannot follow (the `FM` prefix,
ordinals, Roman months, text in capitals) is refused, since another text would look right: TO_CHAR then does it by itself
(`runtime/expr/time_patterns.py`).
"""

from __future__ import annotations

import re

from runtime.core.errors import Span, TypeMismatchError

__all__ = ["date_format_pattern"]

_LETTERS = {
    "YYYY": "yyyy", "YY": "yy", "MM": "MM", "DD": "dd", "DDD": "DDD", "HH24": "HH", "HH12": "hh", "HH": "hh",
    "MI": "mm", "SS": "ss", "MS": "SSS", "US": "SSSSSS", "AM": "a", "PM": "a", "Mon": "MMM", "Dy": "EEE",
    "Q": "Q",
}  # fmt: skip
_REFUSED = (
    "FM", "TH", "th", "TM", "FX", "SP", "Month", "MONTH", "month", "MON", "mon", "Day", "DAY", "day", "DY", "dy", "RM", "rm",
    "Y,YYY", "YYY", "Y", "IYYY", "IYY", "IY", "I", "BC", "B.C.", "AD", "A.D.", "D", "ID", "W", "WW", "IW", "CC", "J", "SSSSS",
    "SSSS", "am", "pm", "a.m.", "p.m.", "A.M.", "P.M.", "TZ", "tz", "TZH", "TZM", "OF", "IDDD", "FF1", "FF2", "FF3", "FF4",
    "FF5", "FF6",
)  # fmt: skip
"""Patterns whose text DATE_FORMAT does not make in the same way: names padded to nine letters, for example."""
_KNOWN = re.compile(
    '"[^"]*"|' + "|".join(re.escape(word) for word in sorted((*_LETTERS, *_REFUSED), key=len, reverse=True))
)


def date_format_pattern(pattern: str, span: Span | None) -> str:
    """The same pattern for DATE_FORMAT.

    Raises:
        TypeMismatchError: E1301, a part that has no counterpart.
    """
    found: list[str] = []
    at = 0
    while at < len(pattern):
        match = _KNOWN.match(pattern, at)
        word = match[0] if match else pattern[at]
        if word in _LETTERS:
            found.append(_LETTERS[word])
        elif match and not word.startswith('"'):
            raise TypeMismatchError(
                f"TO_CHAR takes no '{word}' here",
                code="E1301",
                span=span,
                hint=f"it takes {', '.join(_LETTERS)}, and text in double quotes; DATE_FORMAT takes Java's patterns",
            )
        else:
            text = word.strip('"') if match else word
            found.append(
                "''" if text == "'" else f"'{text.replace(chr(39), chr(39) * 2)}'" if text.isalpha() or match else text
            )
        at += len(word)
    return "".join(found)
