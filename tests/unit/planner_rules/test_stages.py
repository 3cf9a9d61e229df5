"""The list of stages keeps its own promises, and every rule is documented where it stands."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from planner import rules
from planner.rule import Rule
from planner.stages import STAGES

VERBS = (
    "merge_",
    "push_",
    "pull_",
    "remove_",
    "fold_",
    "split_",
    "expand_",
    "convert_",
    "reorder_",
    "decorrelate_",
    "prune_",
    "simplify_",
    "remember_",
    "check_",
    "materialize_",
)
RULES: dict[str, Rule] = {r.name: r for s in STAGES for r in s.rules}


def rule_modules() -> dict[str, str]:
    """Rule name by module, for all modules below planner/rules that hold a rule."""
    found = {}
    for info in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}."):
        module = importlib.import_module(info.name)
        if "RULE" in vars(module):
            found[info.name] = module.RULE.name
    return found


def test_every_rule_file_is_in_a_stage_under_its_own_name() -> None:
    modules = rule_modules()
    assert {name.rpartition(".")[2] for name in modules} == set(RULES)
    assert all(name.endswith("." + rule) for name, rule in modules.items())


def test_rules_are_named_by_verbs() -> None:
    assert [name for name in RULES if not name.startswith(VERBS)] == []


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda r: r.name)
def test_a_rule_stands_after_those_it_needs(rule: Rule) -> None:
    order = [r.name for s in STAGES for r in s.rules]
    for needed in rule.after:
        assert needed in RULES, f"{rule.name} is after {needed}, which does not exist"
        assert order.index(needed) <= order.index(rule.name), f"{rule.name} stands before {needed}"


@pytest.mark.parametrize("module", rule_modules())
def test_a_rule_documents_its_picture_and_what_it_means_for_a_stream(module: str) -> None:
    doc = importlib.import_module(module).__doc__ or ""
    assert "Streaming:" in doc or "Streaming " in doc, "a line that begins with Streaming: is missing"
    assert "→" in doc or module.rpartition(".")[2].startswith("check_"), "a picture of before and after is missing"


def test_every_stage_gives_its_reason() -> None:
    assert all(s.reason for s in STAGES)
    assert len({s.name for s in STAGES}) == len(STAGES)
