"""A request that is answered with an error, whatever answers look like."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):
    """A request that is answered with an error.

    Args:
        status: of HTTP.
    """

    def __init__(self, status: int, *errors: str) -> None:
        super().__init__(errors[0])
        self.status = status
        self.errors = errors
