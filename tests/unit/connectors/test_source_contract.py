"""The contract of sources, over all connectors that can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from contract_sources import SOURCES

from runtime.spi.source import SourceTable
from sqlengine.testing.connectors.sources import CHECKS


@pytest.mark.parametrize("make", SOURCES, ids=lambda m: m.__name__)
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_contract(make: Callable[[Path], SourceTable], check: Callable[[SourceTable], None], tmp_path: Path) -> None:
    check(make(tmp_path))
