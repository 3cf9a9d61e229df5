"""What somebody cannot do with what a checkpoint holds is its damage, but for a lack of memory that is honest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from runtime.checkpoint.fitting import taking
from runtime.core.errors import CheckpointError, ConnectorError, InternalError


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), InternalError("x"), OverflowError(), RecursionError()]
)
@pytest.mark.parametrize("room", [True, False])
def test_what_does_not_fit_is_damage(error: Exception, room: bool) -> None:
    with (
        pytest.raises(CheckpointError, match="the state is not what was saved") as caught,
        taking("the state", room=room),
    ):
        raise error
    assert caught.value.code == "E3402" and caught.value.hint


@pytest.mark.parametrize("error", [ConnectorError("x"), CheckpointError("x"), OSError("x")])
def test_what_the_system_says_stays(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, taking("the state"):
        raise error
    assert caught.value is error


def numpy_asks() -> None:
    np.repeat(np.arange(2), np.array([1, 1 << 58]))


def arrow_asks() -> None:
    raise pa.ArrowMemoryError("malloc of size 4611686018427387904 failed")


@pytest.mark.parametrize("ask", [numpy_asks, arrow_asks])
@pytest.mark.parametrize("room", [True, False])
def test_a_count_that_no_machine_has_room_for_is_damage(ask: object, room: bool) -> None:
    assert callable(ask)
    with pytest.raises(CheckpointError) as caught, taking("the state", room=room):
        ask()
    assert caught.value.code == "E3402"


def test_a_lack_of_memory_is_one() -> None:
    for error in (MemoryError(), pa.ArrowMemoryError("malloc of size 4096 failed")):
        with pytest.raises(MemoryError) as caught, taking("what operators compute", room=False):
            raise error
        assert caught.value is error
        with pytest.raises(CheckpointError), taking("the state"):
            raise error
