"""Restart strategies: how many attempts there are, and the pauses between them."""

from __future__ import annotations

import pytest

from runtime.core.errors import ConnectorError, ExpressionError
from runtime.core.options import Options
from runtime.local.restart_strategy import may_pass, restart_strategy


def pauses(options: dict[str, str], failures: list[int], *, checkpointed: bool = False) -> list[int | None]:
    strategy = restart_strategy(Options(options), checkpointed=checkpointed)
    return [strategy.pause(now) for now in failures]


def test_without_checkpoints_a_failed_job_has_failed() -> None:
    assert pauses({}, [0]) == [None]


@pytest.mark.parametrize("kind", ["none", "off", "disable"])
def test_none(kind: str) -> None:
    assert pauses({"restart-strategy.type": kind}, [0], checkpointed=True) == [None]


def test_fixed_delay() -> None:
    options = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "restart-strategy.fixed-delay.delay": "3 s",
    }
    assert pauses(options, [0, 10, 20]) == [3000, 3000, None]


def test_exponential_delay_grows_to_its_bound_and_begins_anew() -> None:
    options = {
        "restart-strategy.exponential-delay.initial-backoff": "1 s",
        "restart-strategy.exponential-delay.backoff-multiplier": "2",
        "restart-strategy.exponential-delay.max-backoff": "5 s",
        "restart-strategy.exponential-delay.jitter-factor": "0",
        "restart-strategy.exponential-delay.reset-backoff-threshold": "1 min",
    }
    assert pauses(options, [0, 0, 0, 0, 70_000], checkpointed=True) == [1000, 2000, 4000, 5000, 1000]


def test_exponential_delay_ends_after_its_attempts() -> None:
    options = {"restart-strategy.exponential-delay.attempts-before-reset-backoff": "1"}
    first, second = pauses(options, [0, 1], checkpointed=True)
    assert first is not None
    assert second is None


def test_failure_rate() -> None:
    options = {
        "restart-strategy.type": "failure-rate",
        "restart-strategy.failure-rate.max-failures-per-interval": "2",
        "restart-strategy.failure-rate.failure-rate-interval": "1 min",
        "restart-strategy.failure-rate.delay": "1 s",
    }
    assert pauses(options, [0, 30_000, 61_000, 62_000]) == [1000, 1000, 1000, None]


def test_only_what_may_pass_is_tried_again() -> None:
    assert may_pass(ConnectorError("the server is away"))
    assert may_pass(OSError("no space left on device"))
    assert not may_pass(ExpressionError("division by zero"))
