"""Session options: docs/options.md tells of each, with its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.options.time_zones import time_zone_name
from sqlengine.statements.settings import SESSION_OPTIONS

MANUAL = Path(__file__).parent.parent.parent.parent / "docs" / "options.md"


def test_every_option_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (?:`([^`]*)`)? ?\|", MANUAL.read_text(encoding="utf-8"), re.MULTILINE)
    # An option that is not set is an empty text, or as a duration -1.
    unset = {key: option.default for key, option in SESSION_OPTIONS.items() if option.default in ("", -1)}
    documented = {key: SESSION_OPTIONS[key].read(default) if default else unset.get(key) for key, default in rows}
    assert documented == {key: option.default for key, option in SESSION_OPTIONS.items()}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("UTC", "UTC"),
        ("default", "UTC"),
        ("Europe/Berlin", "Europe/Berlin"),
        ("+02:00", "+02:00"),
        ("GMT+2", "+02:00"),
        ("UTC-0530", "-05:30"),
        ("GMT+99", None),
        ("Mars/Olympus", None),
        ("", None),
    ],
)
def test_time_zones(text: str, name: str | None) -> None:
    assert time_zone_name(text) == name


def test_options_of_flink_are_taken_and_typing_mistakes_are_not() -> None:
    with TableEnvironment.create({"parallelism.default": "4", "table.exec.mini-batch.enabled": "true"}) as t_env:
        for wrong in ("table.exec.state.tll", "sqlengine.epoch.max-row", "tabel.local-time-zone", ""):
            with pytest.raises(SqlEngineError, match="E1503"):
                t_env.get_config().set(wrong, "1")
