"""Operators that are thrown away between epochs and go on from their saved state: a restart without a crash.

What a restart loses shows up as a wrong answer of the epochs that follow. The runner of golden files does this to every
query (`sqlengine test --matrix`).
"""

from __future__ import annotations

import random

from runtime.core.errors import InternalError
from runtime.local.dataflow import Dataflow
from runtime.state.snapshot import SavedOperator, SavedState

__all__ = ["Restarts"]


class Restarts:
    """Saves a dataflow after every epoch, and after some makes its operators anew from the saves since the last time.

    So the saves in between are increments, and both whole images and chains of increments are restored.
    """

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._chain: list[list[SavedOperator]] = []

    def after_epoch(self, dataflow: Dataflow) -> None:
        """Save, and maybe restart.

        Raises:
            InternalError: an operator keeps rows of which no table tells.
        """
        for vertex in dataflow.vertices:
            for task in () if vertex.operator is None else vertex.operator.tasks:
                if task.state_size.rows and not task.tables:
                    raise InternalError(f"{vertex.name} keeps state without a table: it would be lost in a restart")
        self._chain.append(dataflow.save())
        if self._chance.random() < 0.5:
            return
        names = [saved.name for saved in self._chain[-1]]
        saved = {name: SavedState.of([save[i] for save in self._chain]) for i, name in enumerate(names)}
        self._chain.clear()
        dataflow.renew(saved)
