"""What docs/connectors/README.md says is exactly once is what tests prove: the contract suite, and processes that are killed.

The tests are read, not run: those that a class of the contract suite gets from it, with the connectors that the class names,
and those that kill processes. That they pass is what the other tests say.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "connectors" / "README.md"
_UNITS, _FAULTS = _ROOT / "tests" / "unit" / "connectors", _ROOT / "tests" / "faults"
_BEGIN = "<!-- what is proven -->\n"
_POSITIONS, _STEPS, _KILLED_SOURCE, _KILLED_SINK = range(4)
_HEAD = (
    "| connector | reads on from every position | writes each row once, whatever fails or ends before and behind each step "
    "of a commit | processes are killed while they read | while they write |\n|---|---|---|---|---|\n"
)
_OF_OTHERS = {"jdbc": ("postgres", "mysql", "sqlite")}
"""Connectors whose tables are those of others."""
_WITHOUT_ROWS = {"blackhole"}


def test_the_table_is_what_tests_prove(rewrite: bool) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    before, rest = page.split(_BEGIN)
    after = rest[rest.index("\n\n") :]
    proven = _proven()
    lines = [
        f"| `{name}` | {' | '.join('yes' if proof in proofs else '' for proof in range(4))} |".replace("|  |", "| |")
        for name, proofs in sorted(proven.items())
    ]
    table = re.sub(r"\|  (?=\|)", "| ", _HEAD + "\n".join(lines))
    made = f"{before}{_BEGIN}{table}{after}"
    if rewrite:
        _PAGE.write_text(made, encoding="utf-8")
    assert _PAGE.read_text(encoding="utf-8") == made


def test_what_is_said_to_be_exactly_once_is_proven() -> None:
    claims = _PAGE.read_text(encoding="utf-8").split("## Guarantees")[1].split("\n## ")[0].split(_BEGIN)[0]
    proven = _proven()
    said = 0
    for names, source, sink in re.findall(r"^\| (`[^|]*`) \| ?([^|]*)\| ?([^|]*)\|", claims, re.MULTILINE):
        for name in re.findall(r"`([\w-]+)`", names):
            for one in _OF_OTHERS.get(name, (name,)):
                if source.startswith("exactly once"):
                    said += 1
                    assert proven.get(one, set()) & {_POSITIONS, _KILLED_SOURCE}, f"nothing proves the source '{one}'"
                if sink.startswith("exactly once") and name not in _WITHOUT_ROWS:
                    said += 1
                    assert _STEPS in proven.get(one, set()), f"nothing proves the sink '{one}'"
    assert said > 20


def _proven() -> dict[str, set[int]]:
    """By connector what tests prove of it."""
    found: dict[str, set[int]] = {}
    for path in sorted(_UNITS.glob("test_*.py")):
        for contract, connectors, has_steps in _contracts(ast.parse(path.read_text(encoding="utf-8"))):
            assert connectors, f"a class of the contract suite in {path.name} names no connectors"
            for name in connectors:
                proofs = found.setdefault(name, set())
                proofs |= {_POSITIONS} if contract == "SourceContract" else {_STEPS} if has_steps else set()
    for name in _small_sources(ast.parse((_UNITS / "contract_sources.py").read_text(encoding="utf-8"))):
        found.setdefault(name, set()).add(_POSITIONS)
    pairs = _constants(ast.parse((_FAULTS / "pairs.py").read_text(encoding="utf-8")))
    for system in pairs["SYSTEMS"]:
        found.setdefault(pairs["CONNECTORS"].get(system, system), set()).update({_KILLED_SOURCE, _KILLED_SINK})
    for path in sorted(_FAULTS.glob("test_*.py")):
        constants = _constants(ast.parse(path.read_text(encoding="utf-8")))
        for proof, key in ((_KILLED_SOURCE, "KILLED_SOURCES"), (_KILLED_SINK, "KILLED_SINKS")):
            for name in constants.get(key, ()):
                found.setdefault(name, set()).add(proof)
    return found


def _contracts(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Of each class that pytest collects: which contract it is of, its connectors, whether jobs are killed at steps."""
    known: dict[str, tuple[str, tuple[str, ...], bool]] = {}
    shared = ast.parse((_UNITS / "database_sinks.py").read_text(encoding="utf-8"))
    for node in (*shared.body, *tree.body):
        if not isinstance(node, ast.ClassDef):
            continue
        for base in (b.id for b in node.bases if isinstance(b, ast.Name)):
            if base not in ("SourceContract", "SinkContract") and base not in known:
                continue
            contract, connectors, has_steps = known.get(base, (base, (), False))
            own = {
                target.id: item.value
                for item in node.body
                if isinstance(item, ast.Assign)
                for target in item.targets
                if isinstance(target, ast.Name)
            }
            if "connectors" in own:
                connectors = ast.literal_eval(own["connectors"])
            steps = own.get("steps")
            has_steps = has_steps if steps is None else isinstance(steps, ast.Tuple) and len(steps.elts) > 0
            known[node.name] = contract, connectors, has_steps
            if node.name.startswith("Test"):
                yield known[node.name]


def _small_sources(tree: ast.Module) -> set[str]:
    """The connectors of the tables that `test_source_contract.py` takes through the suite."""
    (listed,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "SOURCES"
    )
    assert isinstance(listed, ast.Tuple)
    names = {item.id for item in listed.elts if isinstance(item, ast.Name)}
    return {
        call.args[0].value
        for function in tree.body
        if isinstance(function, ast.FunctionDef) and function.name in names
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "source"
        if isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    }


def _constants(tree: ast.Module) -> dict[str, dict[str, str] | tuple[str, ...]]:
    """Tuples and dictionaries of texts at the top of a module; of other values the keys."""
    found: dict[str, dict[str, str] | tuple[str, ...]] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ):
                if isinstance(value, ast.Dict):
                    keys = [key.value for key in value.keys if isinstance(key, ast.Constant)]
                    texts = [v.value if isinstance(v, ast.Constant) else "" for v in value.values]
                    found[name] = dict(zip(keys, texts, strict=True))
                elif isinstance(value, ast.Tuple) and all(isinstance(e, ast.Constant) for e in value.elts):
                    found[name] = tuple(e.value for e in value.elts if isinstance(e, ast.Constant))
    return found
