"""What of a job the driver reads and asks itself although tasks are on other machines, and why: for EXPLAIN."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.options import Options
from runtime.plan.base import PhysicalNode
from runtime.plan.nodes import LookupJoinExec, SourceExec
from runtime.spi.abilities import SupportsDistributedReads
from runtime.tasks.asked import asked_in_tasks
from runtime.tasks.executor import Executor
from runtime.tasks.options import LOOK_UP_IN_TASKS, READ_IN_TASKS
from runtime.tasks.sources import worth_it

__all__ = ["staying"]


def staying(nodes: Sequence[PhysicalNode], options: Options, executor: Executor) -> list[str]:
    """A line for each table of a plan, once; none where all tasks are on this machine."""
    if executor.local:
        return []
    asked = asked_in_tasks(nodes) if options.get(LOOK_UP_IN_TASKS) else frozenset[PhysicalNode]()
    found: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, SourceExec) and not worth_it(node, options, executor, nodes):
            found[f"the driver reads {_short(node.name)}: {_not_read(node, options)}"] = None
        elif isinstance(node, LookupJoinExec) and node not in asked:
            found[f"the driver asks {_short(node.name)}: {_not_asked(node, options)}"] = None
    return list(found)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _not_read(node: SourceExec, options: Options) -> str:
    if not (isinstance(node.table, SupportsDistributedReads) and node.table.distributed_reads):
        return "tasks cannot read it"
    if options.get(READ_IN_TASKS).lower() == "false":
        return f"'{READ_IN_TASKS.key}' = 'false'"
    if not node.table.bounded:
        return "it has no end, and is asked in each epoch, which would be a Spark job"
    return "it has few rows, or epochs have"


def _not_asked(node: LookupJoinExec, options: Options) -> str:
    if not options.get(LOOK_UP_IN_TASKS):
        return f"'{LOOK_UP_IN_TASKS.key}' = 'false'"
    if node.asked_anywhere:
        return "rows that wait for it hold back the watermark, which is needed behind"
    return "tasks cannot ask it"
