"""Golden specs of the rules: `tests/specs/rules/<rule>.spec`.

A case is a command, a plan, `----`, the plan after it, and an empty line.

    rule NAME           applies one rule wherever it fires, until it does not
    rule NAME unchanged the same, and the rule must not fire at all; the output is the word `unchanged`
    optimize expect=A,B expect-not=C    all stages, and which rules must and must not have fired
    error NAME          the rule must refuse the plan; the output is the message

Set SQLENGINE_REWRITE=1 to write the outputs anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from spec_table import open_table

from planner.logical.display import explain
from planner.logical.reader import read_plan
from planner.logical.validate import validate
from planner.optimizer import optimize, run_stages
from planner.rule import Direction, Rule, RuleContext, Stage
from planner.stages import STAGES
from planner.trace import Trace
from runtime.core.errors import SqlEngineError
from runtime.expr.library import builtin_functions

FOLDER = Path(__file__).parents[2] / "specs" / "rules"
SPECS = sorted(FOLDER.glob("*.spec"))
REWRITE = bool(os.environ.get("SQLENGINE_REWRITE"))
FUNCTIONS = builtin_functions()
RULES: dict[str, Rule] = {r.name: r for s in STAGES for r in s.rules}


def once(rule: Rule) -> Stage:
    """A stage of one rule, as far as it goes; those that must not run to a fixpoint run once."""
    own = next(s for s in STAGES if rule in s.rules)
    return Stage(
        "spec", (rule,), own.direction if own.direction is Direction.BOTTOM_UP else Direction.TOP_DOWN, "", own.fixpoint
    )


def run(command: str, text: str) -> str:
    kind, *words = command.split()
    plan = read_plan(text, FUNCTIONS, open_table)
    validate(plan)
    context, trace = RuleContext(FUNCTIONS), Trace()
    if kind == "optimize":
        after = optimize(plan, context, trace)
        for word in words:
            key, _, names = word.partition("=")
            for name in names.split(","):
                assert name in RULES, f"no rule {name}"
                assert (name in trace.fired) is (key == "expect"), f"{word}: fired were {sorted(trace.fired)}"
        return explain(after)
    stage = once(RULES[words[0]])
    if kind == "error":
        with pytest.raises(SqlEngineError) as raised:
            run_stages(plan, [stage], context, trace)
        return str(raised.value)
    assert kind == "rule", command
    after = run_stages(plan, [stage], context, trace)
    assert ("unchanged" in words[1:]) is not bool(trace.steps), (
        f"{command}: the rule {'fired' if trace.steps else 'did not fire'}\n{explain(after)}"
    )
    return explain(after) if trace.steps else "unchanged"


def cases(path: Path) -> list[tuple[str, str, str]]:
    found = []
    for block in path.read_text("utf-8").split("\n\n"):
        if block.strip():
            head, _, expected = block.strip("\n").partition("\n----")
            command, _, text = head.partition("\n")
            found.append((command, text, expected.removeprefix("\n")))
    return found


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_spec(path: Path) -> None:
    written, wrong = [], []
    for command, text, expected in cases(path):
        actual = run(command, text)
        written.append(f"{command}\n{text}\n----\n{actual}\n")
        if actual != expected:
            wrong.append(f"{command}\n{text}\n---- expected\n{expected}\n---- got\n{actual}")
    if REWRITE:
        path.write_text("\n".join(written), "utf-8")
    else:
        assert not wrong, "\n\n".join(wrong)


def test_every_rule_has_a_spec_with_a_case_where_it_must_not_fire() -> None:
    missing = []
    for name in RULES:
        path = FOLDER / f"{name}.spec"
        commands = [command for command, _, _ in cases(path)] if path.exists() else []
        fires = any(c.startswith((f"rule {name}", f"error {name}")) and "unchanged" not in c for c in commands)
        rests = any(c == f"rule {name} unchanged" for c in commands)
        if not fires or not rests:
            missing.append(name)
    assert not missing, f"specs are missing for: {', '.join(missing)}"
