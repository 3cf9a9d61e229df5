"""What tests change about the statements of a session: how epochs are cut, which checks run, what connectors become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from runtime.core.changelog import ChangelogBatch
from runtime.local.job_settings import EpochCut
from sqlengine.catalog.objects import CatalogTable, ObjectPath

__all__ = ["Harness"]


@dataclass
class Harness:
    """The same answers are expected with any of these.

    Args:
        checked: the laws of operators are checked in every epoch.
        restarts: a job is saved and made anew after so many epochs.
        job_options: options of jobs, as if they were set.
        cut: cuts the epochs of jobs.
        publish_cut: cuts the changes of a statement into steps.
        stand_in: what takes the place of a table that is created: a table in memory in the place of a connector.
        declared: tables with a stand-in as they were declared.
        inserts_follow: an INSERT reads tables in memory as streams, as it would read what they stand for.
    """

    checked: bool = False
    restarts: int | None = None
    job_options: dict[str, str] = field(default_factory=dict)
    cut: EpochCut | None = None
    publish_cut: Callable[[ChangelogBatch], list[ChangelogBatch]] | None = None
    stand_in: Callable[[CatalogTable], CatalogTable] | None = None
    declared: dict[ObjectPath, CatalogTable] = field(default_factory=dict)
    inserts_follow: bool = False
