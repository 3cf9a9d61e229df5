"""Calls of the walk of MATCH_RECOGNIZE, for the tests of all kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.kernels.match_walk import NOT_BEGUN, START, STATE, Rules, Runs, Steps, walk
from runtime.operators.match_automaton import automaton
from runtime.plan.pattern import AfterMatch, Pattern, PatternVariable

PATTERNS = [
    [(1, 1, True), (1, None, True), (1, 1, True)],
    [(1, 2, True), (0, 2, True), (1, 1, True)],
    [(1, 1, True), (0, 1, True), (2, 3, False), (0, 2, False)],
    [(2, None, False), (1, 1, True)],
]


def of_match(rng: np.random.Generator, rows: int) -> list[Any]:
    """Walks over partitions in two parts, with conditions that depend on runs."""
    rows = min(rows, 400)
    found: list[Any] = []
    for number, quantifiers in enumerate(PATTERNS):
        variables = tuple(PatternVariable("ABCD"[i], *q) for i, q in enumerate(quantifiers))
        made = automaton(Pattern(variables, AfterMatch.TO_NEXT_ROW))
        after = number % 2
        rules = Rules(len(variables), after, 1, int(rng.integers(0, 2)) * 6, int(rng.integers(0, 4)))
        partitions = 1 + rows // 20
        runs = Runs(np.arange(partitions + 1), np.zeros((partitions, rules.width), np.int64))
        runs.rows[:, START], runs.rows[:, STATE] = NOT_BEGUN, made.start
        held = Runs(np.zeros(partitions + 1, np.int64), np.zeros((0, rules.width), np.int64))
        cut = np.sort(rng.integers(0, rows + 1, partitions - 1))
        at, end = np.concatenate(([0], cut)), np.concatenate((cut, [rows]))
        bits = rng.integers(0, 1 << len(variables), (2, rows)).astype(np.uint64)
        steps = Steps(at, end, -at, bits[0], bits[0] | bits[1], np.arange(rows, dtype=np.int64) // 3)
        answers, answered = np.zeros(len(runs.rows), np.uint64), np.zeros(partitions, np.int64)
        while True:
            runs, held, matches = walk(made, rules, steps, runs, held, answers, answered, rows)
            found += [runs.begin, runs.rows, held.begin, held.rows, matches, steps.at.copy()]
            if (steps.at == steps.end).all():
                break
            answers = rng.integers(0, 4, len(runs.rows)).astype(np.uint64)
            answered = np.ones(partitions, np.int64)
    return found
