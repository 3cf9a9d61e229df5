"""Sources that keep together in event time: how far each may be read in the next epoch."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.clock import MAX_WATERMARK
from runtime.local.dataflow import Dataflow
from runtime.local.source_inputs import SourceInputs

__all__ = ["Alignments"]


class Alignments:
    """The alignment groups of a job (table options `scan.watermark.alignment.*`).

    Before each epoch the slowest watermark of a group is found, among the splits that were begun, have not ended and
    are not idle. A source or split that is more than its table's `max-drift` ahead of it is not read in that epoch; the
    slowest always is. So sources drift apart by `max-drift` and the rows of one epoch at most. A source that has given
    no row yet holds back its group: give it an idle timeout if it may stay silent.
    """

    def __init__(self, sources: Sequence[SourceInputs]) -> None:
        self._groups: dict[str, list[SourceInputs]] = {}
        for source in sources:
            if source.node.alignment is not None:
                self._groups.setdefault(source.node.alignment.group, []).append(source)

    def note(self, dataflow: Dataflow) -> None:
        """After an epoch: tell the sources how far they are."""
        for members in self._groups.values():
            for source in members:
                source.note(*dataflow.progress(source.node))

    def limits(self) -> dict[int, int]:
        """The watermark up to which each aligned source may be read now, by `id` of its inputs."""
        found: dict[int, int] = {}
        for members in self._groups.values():
            slowest = min((mark for s in members if (mark := s.slowest) is not None), default=MAX_WATERMARK)
            for source in members:
                assert source.node.alignment is not None
                found[id(source)] = min(slowest + source.node.alignment.max_drift, MAX_WATERMARK)
        return found
