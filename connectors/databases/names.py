"""Names of tables, as options have them."""

from __future__ import annotations

__all__ = ["split_name"]


def split_name(name: str, outer: str, quote: str) -> tuple[str, str]:
    """The two parts of a name as `table`, `outer.table`, or with quotes around a part; `outer` where it has none."""
    parts: list[str] = []
    rest = name
    while rest:
        if rest.startswith(quote) and quote in rest[1:]:
            part, _, rest = rest[1:].partition(quote)
            parts.append(part)
            rest = rest.removeprefix(".")
        else:
            part, _, rest = rest.partition(".")
            parts.append(part)
    if len(parts) == 2:
        return parts[0], parts[1]
    return outer, name if len(parts) != 1 else parts[0]
