"""Random edits of statements that go on from what an earlier version has saved at a random epoch: where EXPLAIN RESTORE
says exact, what is published in the end folds to what a run of the edited statements over all input publishes; anything
else is refused. FUZZ_CASES and FUZZ_SEED as in `test_fuzz`."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.core.errors import CheckpointError
from runtime.local import partitioned
from tests.oracle.edited_statements import (
    QUERIES,
    Insert,
    Program,
    Stopped,
    edited,
    environment,
    folded,
    program,
    write_input,
)

CASES = int(os.environ.get("FUZZ_CASES", "0")) // 10 or 16
WANTED = os.environ.get("FUZZ_SEED") or "0"
FIRST = random.SystemRandom().randrange(1 << 30) if WANTED == "random" else int(WANTED)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_random_edits(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


def check(folder: Path, seed: int) -> list[tuple[str, bool]]:
    """Runs a program and up to three edits of it. Gives the edits, and whether they were taken."""
    rng = random.Random(seed)
    source = folder / "in"
    current = program(rng)
    write_input(source, rng, current.source.text)
    # What is written stays where it is; each version of the program that goes on does so in the same folder.
    done: list[tuple[str, bool]] = []
    epoch, path = 0, None
    edits = rng.choice([1, 1, 2, 3])
    for number in range(edits + 1):
        epoch += rng.randrange(2, 5)
        last = number == edits
        options = {
            "parallelism.default": str(rng.choice([1, 1, 2, 3])),
            "state.backend.type": rng.choice(["memory", "memory", "rocksdb"]),
        }
        if path is not None:
            options["execution.savepoint.path"] = str(path)
        saving = folder / f"save{number}" if rng.random() < 0.3 and not last else None
        wanted, edit = current, ""
        if number:
            edit, wanted = edited(current, rng)
            with environment(wanted, source, folder, options=options) as t_env:
                ((shown,),) = t_env.execute_sql("EXPLAIN RESTORE " + wanted.sql().removeprefix("EXECUTE ")).collect()
                exact = "\nexact" in shown or shown.startswith("There is no")
                done.append((edit, exact))
                if not exact:
                    # Twice: a statement that was refused is still the same job.
                    for _ in range(2):
                        with pytest.raises(CheckpointError, match=r"E341[01]"):
                            t_env.execute_sql(wanted.sql())
                    assert wanted != current, shown
                    wanted = current
        current = wanted
        with (
            environment(
                current, source, folder, stop_after=None if last else epoch, savepoint=saving, options=options
            ) as t_env,
            suppress(Stopped),
        ):
            t_env.execute_sql(current.sql())
        if saving is not None and saving.exists():
            path = saving
            _forget(folder / "state")
        elif (folder / "state").exists():
            path = None
    with environment(current, source, folder / "fresh") as t_env:
        t_env.execute_sql(current.sql())
    expected = folded(folder / "fresh", current)
    assert any(expected.values())
    assert folded(folder, current) == expected, f"{done}\n{current.sql()}"
    return done


def _forget(folder: Path) -> None:
    for file in sorted(folder.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()


@pytest.mark.parametrize("through", ["savepoints", "checkpoints"])
def test_rescaling(tmp_path: Path, through: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of query as one task, then four, three and one, its keys in memory and out of it, in turn. However few
    the rows are, tasks are on threads of their own."""
    monkeypatch.setattr(partitioned, "_FEW_ROWS", 0)
    rng = random.Random(5)
    given = Program(tuple(Insert(f"t{n}", kind) for n, kind in enumerate(QUERIES)))
    source = tmp_path / "in"
    write_input(source, rng, "json")
    path = None
    for number, (tasks, backend) in enumerate(((1, "memory"), (4, "rocksdb"), (3, "memory"), (1, "rocksdb"))):
        options = {"parallelism.default": str(tasks), "state.backend.type": backend, "sqlengine.state.memory": "20 kb"}
        if path is not None:
            options["execution.savepoint.path"] = str(path)
        path = tmp_path / f"save{number}" if through == "savepoints" else None
        stop = None if number == 3 else 2 * number + 3
        with environment(given, source, tmp_path, stop_after=stop, savepoint=path, options=options) as t_env:
            with suppress(Stopped):
                t_env.execute_sql(given.sql())
            if number:
                (running,) = t_env.session.jobs.jobs.values()
                assert running.job.restored is not None
        if path is not None and stop is not None:
            assert path.exists()
            _forget(tmp_path / "state")
    with environment(given, source, tmp_path / "fresh") as t_env:
        t_env.execute_sql(given.sql())
    assert folded(tmp_path, given) == folded(tmp_path / "fresh", given)
