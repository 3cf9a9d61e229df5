"""Read the rows of tables and views, and the state of running jobs, by key: the client of a state server.

from sqlengine.state import StateClient
"""

from __future__ import annotations

from sqlengine.server.state.embedded import serve_state
from sqlengine.server.state.failures import (
    JobEnded,
    Malformed,
    NotAllowed,
    NotQueryable,
    NotStarted,
    Overloaded,
    TimedOut,
    UnknownJob,
    UnknownKey,
    UnknownState,
    Unreachable,
    WrongKey,
)
from sqlengine.state.client import KeysAsked, StateClient, StateInfo, epoch_of

__all__ = [
    "JobEnded",
    "KeysAsked",
    "Malformed",
    "NotAllowed",
    "NotQueryable",
    "NotStarted",
    "Overloaded",
    "StateClient",
    "StateInfo",
    "TimedOut",
    "UnknownJob",
    "UnknownKey",
    "UnknownState",
    "Unreachable",
    "WrongKey",
    "epoch_of",
    "serve_state",
]
