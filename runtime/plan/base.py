"""What all physical nodes are, and what each of them declares.

A node class is the one description of its operator. Beside its fields it declares:

| declaration | says |
|---|---|
| `text()` | what EXPLAIN writes behind its kind |
| `state()` | the tables of its state: name, key, what they hold, what bounds them |
| `follows()` | what its output follows besides the rows of its inputs: time, order of arrival, ... |
| `division()` | by which columns its inputs may be divided among tasks |
| `estimate()` | how many rows it gives, from what is known of its inputs |

A class that leaves one out is refused when it is made. What has a default here (`revises`, `advice`, `aggregates`, ...)
is declared by the few nodes for which the default is wrong. Fields say in their `role` what they are for.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from runtime.core.changelog import ChangelogMode
from runtime.core.errors import InternalError
from runtime.core.node import Node, node_fields
from runtime.core.schema import Schema
from runtime.plan.estimates.rows import RowFacts
from runtime.plan.estimates.sizes import Sizes
from runtime.plan.parts import AggregateSpec
from runtime.plan.state import StateSpec
from runtime.spi.lookup import LookupTable
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable

__all__ = [
    "BY_ROW",
    "DECLARATIONS",
    "INPUT_FIELDS",
    "SETTING",
    "TIME_TO_LIVE",
    "Division",
    "Follows",
    "PhysicalNode",
    "RowNode",
    "by_keys",
]

DECLARATIONS: Final = ("text", "state", "follows", "division", "estimate")
"""What every node class declares itself."""

INPUT_FIELDS: Final = ("input", "left", "right", "parts")
"""The fields of physical nodes that hold other physical nodes: `input`, `left` and `right`, or several `parts`."""

SETTING: Final[Mapping[str, str]] = {"role": "setting"}
"""Metadata of a field that may change while the state stays right."""
TIME_TO_LIVE: Final[Mapping[str, str]] = {"role": "time to live"}
"""Metadata of a setting in milliseconds: what was not touched for so long is forgotten; 0 keeps it."""

BY_ROW: Final[Literal["row"]] = "row"
"""Each row by itself: the input may be divided in any way."""

Division = tuple[tuple[int, ...], ...] | Literal["row"] | None
"""How the inputs of an operator may be divided among tasks: the positions of columns for each input, rows of equal values
in which go to the same task; `BY_ROW`; None for what one task must run."""


class Follows(enum.Flag):
    """What the output of an operator follows besides the rows of its inputs."""

    NOTHING = 0
    EVENT_TIME = enum.auto()
    """The watermark: rows wait for it, or are late."""
    CLOCK = enum.auto()
    """Processing time: something may happen when no row comes."""
    ARRIVAL = enum.auto()
    """The order in which rows come, deletions between them: LIMIT and the first or last row by arrival."""
    TIES = enum.auto()
    """Of rows that the query does not tell apart (equal ranks) those that came first."""
    OUTSIDE = enum.auto()
    """What another system holds at the moment."""
    END = enum.auto()
    """The end of the input."""

    @staticmethod
    def time(proctime: bool) -> Follows:
        """Processing time, or else event time."""
        return Follows.CLOCK if proctime else Follows.EVENT_TIME


class PhysicalNode(Node):
    """Base of all physical nodes."""

    __slots__ = ()
    schema: Schema
    mode: ChangelogMode

    input_fields: ClassVar[tuple[str, ...]] = ()
    """Those of `INPUT_FIELDS` that the class has."""
    inner_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that hold a plan which the operator runs itself, over its own inputs."""
    table_use: ClassVar[Literal["", "source", "sink", "lookup"]] = ""
    """What it does with the table of a connector (fields `table` and `name`), if it has one."""
    sets_time: ClassVar[bool] = False
    """Whether the watermark is made here."""
    knows_timers: ClassVar[bool] = False
    """Whether its operator, which follows the clock, tells when it has something to do (`Operator.next_timer`)."""
    in_driver: ClassVar[bool] = False
    """Whether no task may run it: its watermark follows its state."""
    advice: ClassVar[str] = "aggregate or join in windows, or limit the input"
    """What to do when nothing bounds its state."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.input_fields = tuple(f.name for f in node_fields(cls) if f.name in INPUT_FIELDS)
        left_out = [name for name in DECLARATIONS if getattr(cls, name) is getattr(PhysicalNode, name)]
        if node_fields(cls) and left_out:
            raise TypeError(f"{cls.__name__} does not declare {', '.join(left_out)}")

    @property
    def inputs(self) -> tuple[PhysicalNode, ...]:
        given: tuple[Any, ...] = tuple(getattr(self, name) for name in self.input_fields)
        return given[0] if len(given) == 1 and isinstance(given[0], tuple) else given

    # --- what each node declares

    def text(self) -> str:
        """What EXPLAIN writes behind the kind of the operator: its keys and expressions."""
        raise NotImplementedError

    def state(self) -> tuple[StateSpec, ...]:
        """The tables of its state, as its operator opens them."""
        raise NotImplementedError

    def follows(self) -> Follows:
        """What the output follows besides the rows of the inputs. What times to live do is known without saying."""
        raise NotImplementedError

    def division(self) -> Division:
        """How the inputs may be divided among tasks, so that each has all that it needs."""
        raise NotImplementedError

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        """The rows that it gives, from those of its inputs (of a source those of its table). Columns that are left out
        are taken for as many values as there are rows."""
        raise NotImplementedError

    # --- what few nodes declare

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        """How large the tables of `state` are when the inputs have been read; those that are left out keep all rows."""
        return {}

    def revises(self) -> bool:
        """Whether in a stream rows that were given may change with more input (an inner join's pairs and a closed
        window's result are final)."""
        return False

    def by_key_alone(self) -> bool:
        """Whether all that is kept is by the keys of `division`, and changes with rows of its key alone (or expires)."""
        return False

    @property
    def holds_watermark(self) -> bool:
        """Whether rows that it keeps may hold the watermark back."""
        return False

    def versioned_sources(self) -> tuple[PhysicalNode, ...]:
        """The sources whose tables its operator reads as of versions, besides the changes of its inputs."""
        return ()

    @property
    def aggregates(self) -> tuple[AggregateSpec, ...]:
        """The aggregate calls."""
        return ()

    # --- what follows from it

    @property
    def outside(self) -> SourceTable | SinkTable | LookupTable | None:
        """The table of a connector that is read, written or looked up."""
        return getattr(self, "table", None) if self.table_use else None

    @property
    def outside_name(self) -> str:
        """The name of that table; empty without one."""
        return getattr(self, "name", "") if self.table_use else ""

    @property
    def times_to_live(self) -> dict[str, int]:
        """The fields that hold a time to live, with their milliseconds."""
        return {f.name: getattr(self, f.name) for f in node_fields(self) if f.role == TIME_TO_LIVE["role"]}

    @property
    def expires(self) -> bool:
        """Whether state is forgotten with time."""
        return any(self.times_to_live.values())

    @property
    def follows_clock(self) -> bool:
        """Whether an epoch without any change may have output for the processing time alone, or drop what is too old."""
        return Follows.CLOCK in self.follows() or self.expires

    @property
    def polled(self) -> bool:
        """Whether rows that it holds may come out at any time, and nothing tells when."""
        return Follows.CLOCK in self.follows() and not self.knows_timers

    @property
    def acts_by_clock(self) -> bool:
        """Whether rows may come out when processing time passes, though no row comes. What is only polled and follows the
        order of arrival forgets rows then, and gives none."""
        follows = self.follows()
        return bool(follows & (Follows.CLOCK | Follows.OUTSIDE)) and not (self.polled and Follows.ARRIVAL in follows)

    @property
    def acts_without_input(self) -> bool:
        """Whether something may happen when no row comes."""
        acting = Follows.EVENT_TIME | Follows.CLOCK | Follows.OUTSIDE | Follows.END
        return bool(self.follows() & acting) or self.expires

    @property
    def emits_at_end(self) -> bool:
        """Whether all rows wait for the end of the input. The planner says so with the changelog mode: insertions
        alone, of a node that in a stream would update or remove rows."""
        return self.mode.is_append_only and self.revises()

    def kept(self, name: str) -> StateSpec:
        """The declared table of that name; InternalError when there is none."""
        for table in self.state():
            if table.name == name:
                return table
        raise InternalError(f"{type(self).__name__} declares no state table {name}")


class RowNode(PhysicalNode):
    """Base of nodes that take each row by itself and keep nothing."""

    __slots__ = ()

    def state(self) -> tuple[StateSpec, ...]:
        return ()

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return BY_ROW


def by_keys(
    *inputs: tuple[PhysicalNode, tuple[int, ...]] | tuple[PhysicalNode, tuple[int, ...], tuple[int, ...] | None],
) -> Division:
    """Each input by so many of its columns; None where not every change tells them. Behind the columns may stand the unique
    key of the input."""
    if all(_tells_keys(source.mode, keys, *unique) for source, keys, *unique in inputs):
        return tuple(keys for _, keys, *_ in inputs)
    return None


def _tells_keys(mode: ChangelogMode, keys: Sequence[int], unique: Sequence[int] | None = None) -> bool:
    """Whether every change of a row tells the columns `keys`, so that it reaches the task that has the row: an
    after-image or a delete by unique key alone does only if the columns are part of that key."""
    if not (mode.is_upsert or mode.key_only_deletes):
        return True
    return unique is not None and set(keys) <= set(unique)
