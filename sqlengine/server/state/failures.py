"""Why state cannot be told: one class for each reason, with the same code in the server and in its clients."""

from __future__ import annotations

from runtime.core.errors import StateQueryError

__all__ = [
    "FAILURES",
    "JobEnded",
    "Malformed",
    "NotAllowed",
    "NotQueryable",
    "NotStarted",
    "Overloaded",
    "TimedOut",
    "Unreachable",
    "UnknownJob",
    "UnknownKey",
    "UnknownState",
    "WrongKey",
]


class UnknownJob(StateQueryError):
    """There is no table, materialized view or job of this name."""

    code = "E4100"


class UnknownState(StateQueryError):
    """The job has no such state, or several of this name."""

    code = "E4101"


class UnknownKey(StateQueryError):
    """There is nothing of this key."""

    code = "E4102"


class WrongKey(StateQueryError):
    """Keys have other columns or types than those by which the state is asked."""

    code = "E4103"


class NotStarted(StateQueryError):
    """The job has not completed an epoch since it has started, or starts again after a failure."""

    code = "E4104"


class JobEnded(StateQueryError):
    """The job has ended, and its state is gone."""

    code = "E4105"


class Overloaded(StateQueryError):
    """The server has as many requests as it takes."""

    code = "E4106"


class TimedOut(StateQueryError):
    """There is no answer within the time limit."""

    code = "E4107"


class Malformed(StateQueryError):
    """The request is none, or larger than it may be."""

    code = "E4108"


class Unreachable(StateQueryError):
    """Nobody answers at the address."""

    code = "E4109"


class NotQueryable(StateQueryError):
    """The state is kept where it cannot be asked by key."""

    code = "E4110"


class NotAllowed(StateQueryError):
    """Who asks is not known, or may not ask."""

    code = "E4111"


FAILURES: dict[str, type[StateQueryError]] = {
    kind.code: kind
    for kind in (
        UnknownJob, UnknownState, UnknownKey, WrongKey, NotStarted, JobEnded, Overloaded, TimedOut, Malformed,
        Unreachable, NotQueryable, NotAllowed,
    )
}  # fmt: skip
"""By code."""
