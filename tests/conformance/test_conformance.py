"""Every vector is as Flink answered, or on the list of known differences; no vector on the list is the same."""

from __future__ import annotations

import pytest

from tests.conformance.__main__ import known_differences, run


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[str, str, str, str]]:
    return run()


def test_vectors_are_as_flink_answered(results: dict[str, tuple[str, str, str, str]]) -> None:
    known = known_differences()
    surprising = [
        f"{key} ({category}): {verdict} {detail}"
        for key, (category, verdict, detail, _) in results.items()
        if verdict != "same" and key not in known
    ]
    assert not surprising, "\n".join(surprising)


def test_the_list_of_differences_is_true(results: dict[str, tuple[str, str, str, str]]) -> None:
    assert not [key for key in known_differences() if key not in results or results[key][1] == "same"]


def test_most_changelogs_are_the_same_change_by_change(results: dict[str, tuple[str, str, str, str]]) -> None:
    verdicts = [changes for _, _, _, changes in results.values() if changes != "none"]
    assert len(verdicts) > 150
    assert verdicts.count("same") >= 0.9 * len(verdicts)
