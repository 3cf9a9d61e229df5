"""Calls of the walks of MATCH_RECOGNIZE, for the tests of all kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime.core.clock import MAX_WATERMARK
from runtime.kernels.match_paths import walk_paths
from runtime.kernels.match_walk import NOT_BEGUN, START, STATE, Automaton, Paths, Rules, Runs, Steps, walk
from runtime.operators.match_automaton import automaton
from runtime.operators.match_threads import thread_automaton
from runtime.plan.pattern import AfterMatch, Anchor, Pattern, PatternPart, PatternVariable

PATTERNS = [
    [(1, 1, True), (1, None, True), (1, 1, True)],
    [(1, 2, True), (0, 2, True), (1, 1, True)],
    [(1, 1, True), (0, 1, True), (2, 3, False), (0, 2, False)],
    [(2, None, False), (1, 1, True)],
]


A, B, C = (PatternPart(v) for v in range(3))
SHAPES = [
    PatternPart(parts=(A, PatternPart(1, least=1, most=None), C)),
    PatternPart(parts=(PatternPart(parts=(A, B), either=True, least=0, most=None), PatternPart(2, excluded=True))),
    PatternPart(
        parts=(PatternPart(parts=(A, B), least=1, most=3), PatternPart(0, least=0, most=None, greedy=False), C)
    ),
    PatternPart(
        parts=(PatternPart(anchor=Anchor.START), PatternPart(0, least=0, most=2), B, PatternPart(anchor=Anchor.END))
    ),
    PatternPart(parts=(PatternPart(0, least=0), PatternPart(1, least=0, most=None))),
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
        steps = _steps(rng, rows, len(variables))
        runs = _not_begun(made, rules, len(steps.at))
        held = Runs(np.zeros(len(steps.at) + 1, np.int64), np.zeros((0, rules.width), np.int64))
        answers, answered = _none(runs)
        while True:
            runs, held, matches = walk(made, rules, steps, runs, held, answers, answered, rows)
            found += [runs.begin, runs.rows, held.begin, held.rows, matches, steps.at.copy()]
            if (steps.at == steps.end).all():
                break
            answers, answered = _some(rng, runs)
    return found


def of_paths(rng: np.random.Generator, rows: int) -> list[Any]:
    """The same with the meaning of the standard."""
    rows = min(rows, 400)
    found: list[Any] = []
    variables = tuple(PatternVariable(name, 0, None, True) for name in "ABC")
    for number, shape in enumerate(SHAPES):
        made = thread_automaton(Pattern(variables, AfterMatch.TO_NEXT_ROW, shape=shape))
        for asked in (0, int(rng.integers(1, 8))):
            rules = Rules(3, number % 2, 1, int(rng.integers(0, 2)) * 6, asked, counted=False)
            steps = _steps(rng, rows, 3)
            runs = _not_begun(made, rules, len(steps.at))
            runs = Runs(runs.begin, runs.rows, Paths.none(len(runs.rows)))
            runs.rows[::2, STATE] = made.first
            answers, answered = _none(runs)
            while True:
                now = MAX_WATERMARK if number % 2 else rows
                runs, matches, paths = walk_paths(made, rules, steps, runs, answers, answered, now)
                assert runs.paths is not None
                found += [runs.begin, runs.rows, runs.paths.begin, runs.paths.steps, matches, paths.begin, paths.steps]
                found.append(steps.at.copy())
                if (steps.at == steps.end).all():
                    break
                answers, answered = _some(rng, runs)
    return found


def _steps(rng: np.random.Generator, rows: int, variables: int) -> Steps:
    partitions = 1 + rows // 20
    cut = np.sort(rng.integers(0, rows + 1, partitions - 1))
    at, end = np.concatenate(([0], cut)), np.concatenate((cut, [rows]))
    bits = rng.integers(0, 1 << variables, (2, rows)).astype(np.uint64)
    return Steps(at, end, -at, bits[0], bits[0] | bits[1], np.arange(rows, dtype=np.int64) // 3)


def _not_begun(made: Automaton, rules: Rules, partitions: int) -> Runs:
    runs = Runs(np.arange(partitions + 1), np.zeros((partitions, rules.width), np.int64))
    runs.rows[:, START], runs.rows[:, STATE] = NOT_BEGUN, made.start
    return runs


def _none(runs: Runs) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(len(runs.rows), np.uint64), np.zeros(len(runs.begin) - 1, np.int64)


def _some(rng: np.random.Generator, runs: Runs) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, 4, len(runs.rows)).astype(np.uint64), np.ones(len(runs.begin) - 1, np.int64)
