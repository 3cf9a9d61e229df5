"""What every sink that says `exactly-once` must do."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from runtime.core import retries
from runtime.core.errors import UnavailableError
from sqlengine.testing.connectors.jobs import Faults, JobOfEpochs, SinkCase, Steps, killed_at_each_step

__all__ = ["SinkContract"]


def _away() -> Exception:
    return UnavailableError("the other side is away", hint="wait")


class SinkContract:
    """The tests of a sink that writes exactly once; a subclass gives it cases.

    class TestArchive(SinkContract):
        steps = ((Archive, "commit"),)

        @pytest.fixture
        def make(self, tmp_path):
            return lambda rng: case_of(tmp_path / str(rng.random()), *some_epochs(rng, SCHEMA))
    """

    connectors: tuple[str, ...] = ()
    """Names of those whose promise the class proves, for tables of what is proven."""
    steps: Steps = ()
    """The calls of the connector that change something outside: a job is killed before and behind each of them."""
    seeds = 8
    failing = 0.2
    """How likely a step fails with `error`, in jobs that are not killed; 0 where the connector does not try again."""

    @staticmethod
    def error() -> Exception:
        """What a step raises when the other side does not answer."""
        return _away()

    @pytest.fixture(autouse=True)
    def no_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What fails is tried again at once."""
        monkeypatch.setattr(retries, "rest", lambda seconds: None)

    @pytest.fixture
    def make(self) -> Callable[[random.Random], SinkCase]:
        """Gives an empty table of its own at each call."""
        pytest.fail(f"{type(self).__name__} needs a fixture `make`, which gives its cases: see SinkContract")

    def test_it_promises_exactly_once(self, make: Callable[[random.Random], SinkCase]) -> None:
        assert make(random.Random(0)).table.delivery == "exactly-once"

    def test_crashes_anywhere(self, make: Callable[[random.Random], SinkCase], monkeypatch: pytest.MonkeyPatch) -> None:
        """What readers see is what the newest checkpoint holds, however often the job crashes and the system is away."""
        for seed in range(self.seeds):
            rng = random.Random(seed)
            case = make(rng)
            with monkeypatch.context() as patched:
                faults = Faults(patched, rng, self.steps, self.error)
                faults.probability = self.failing if seed % 2 else 0.0
                JobOfEpochs(case, rng, faults).run()
            assert case.visible() == case.expected(len(case.epochs))

    def test_killed_at_each_step(
        self, make: Callable[[random.Random], SinkCase], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert killed_at_each_step(lambda: make(random.Random(1)), self.steps, monkeypatch) > 0
