"""Options whose values nobody should read over a shoulder."""

from __future__ import annotations

__all__ = ["shown_value"]

MASK = "******"
_ENDS = ("password", "secret", "token", "key-password")


def shown_value(key: str, value: str) -> str:
    """The value of an option as it is shown: a mask for passwords and their kind."""
    return MASK if key.lower().endswith(_ENDS) else value
