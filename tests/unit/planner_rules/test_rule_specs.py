"""Golden specs of the rules: `tests/specs/rules/<rule>.spec`.

A case is a command, a plan, `----`, the plan after it, and an empty line.

    rule NAME           applies one rule wherever it fires, until it does not
    rule NAME unchanged the same, and the rule must not fire at all; the output is the word `unchanged`
    optimize expect=A,B expect-not=C    all stages, and which rules must and must not have fired
    error NAME          the rule must refuse the plan; the output is the message

`pytest --rewrite` writes the outputs anew.
"""

from __future__ import annotations

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
from tests.spec_file import cases, check_spec, spec_files

SPECS = spec_files("rules")
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


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_spec(path: Path, rewrite: bool) -> None:
    check_spec(path, run, rewrite=rewrite)


def test_every_rule_has_a_spec_with_a_case_where_it_must_not_fire() -> None:
    missing = []
    for name in RULES:
        commands = [command for path in SPECS if path.stem == name for command, _, _ in cases(path)]
        fires = any(c.startswith((f"rule {name}", f"error {name}")) and "unchanged" not in c for c in commands)
        rests = any(c == f"rule {name} unchanged" for c in commands)
        if not fires or not rests:
            missing.append(name)
    assert not missing, f"specs are missing for: {', '.join(missing)}"
