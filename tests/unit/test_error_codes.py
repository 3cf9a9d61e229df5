"""Every error code has one meaning, and docs/errors.md tells it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
CODE = re.compile(r"E\d{4}")


def codes_in_source() -> dict[str, list[str]]:
    """The places of every text in the source that is a code."""
    found: dict[str, list[str]] = {}
    for room in ("runtime", "planner", "connectors", "sqlengine"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                    found.setdefault(node.value, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def codes_in_documentation() -> list[str]:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    return re.findall(r"^\| (E\d{4}) \|", text, re.MULTILINE)


def test_every_code_is_documented() -> None:
    source = codes_in_source()
    missing = {code: source[code] for code in sorted(set(source) - set(codes_in_documentation()))}
    assert not missing, f"add a line to docs/errors.md for {missing}"


def test_every_documented_code_exists() -> None:
    assert sorted(set(codes_in_documentation()) - set(codes_in_source())) == []


def test_codes_are_documented_once_and_in_order() -> None:
    codes = codes_in_documentation()
    assert codes == sorted(set(codes))
