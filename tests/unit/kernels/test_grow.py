"""Arrays that grow: values stay, the rest is zero, and nobody who still reads the old array is harmed."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.kernels import grow as module
from runtime.kernels.grow import grow, kept_bytes


class Owner:
    values: np.ndarray


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_huge_array_grows_where_it_stands_unless_it_is_read(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HUGE_BYTES", 1 << 10)
    owner, model, views = Owner(), np.zeros((0, *shape), np.int64), []
    owner.values = model.copy()
    rng = np.random.default_rng(0)
    for step in range(60):
        size = len(model) + int(rng.integers(1, 200))
        grow(owner, "values", size)
        more = rng.integers(1, 100, (size - len(model), *shape))
        assert owner.values.shape[1:] == shape
        assert not owner.values[len(model) :].any()
        owner.values[len(model) : size] = more
        model = np.concatenate((model, more))
        assert (owner.values[:size] == model).all()
        if step % 7 == 0:
            views.append((owner.values[:size], model.copy()))
    assert all((view == then).all() for view, then in views)


def test_what_is_not_used_is_not_counted() -> None:
    assert kept_bytes(np.zeros((10, 2), np.int64), 3) == 48
    assert kept_bytes(np.zeros(10, np.int64), 12) == 80
    assert kept_bytes(np.zeros(0, np.int64), 0) == 0
