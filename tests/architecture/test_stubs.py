"""The stub of `pyarrow.compute`, whose functions pyarrow makes when it is imported, so that a type checker sees none.

`python -m tests.architecture.test_stubs` writes it anew from the pyarrow that is installed.
"""

from __future__ import annotations

import ast
import inspect
import keyword
from pathlib import Path

import pyarrow.compute as pc

STUB = Path(__file__).parents[2] / "typings" / "pyarrow-stubs" / "compute.pyi"
HEAD = '''"""Names and parameters of `pyarrow.compute`; made by `python -m tests.architecture.test_stubs`."""

from typing import Any

'''


def _line(name: str, function: object) -> str:
    """A function with its parameters, all of them Any; a class as it is."""
    if inspect.isclass(function):
        return f"class {name}:\n    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n"
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except ValueError:
        return f"def {name}(*args: Any, **kwargs: Any) -> Any: ...\n"
    shown, kind = [], None
    for parameter in parameters:
        if kind is parameter.POSITIONAL_ONLY and parameter.kind is not kind:
            shown.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            shown.append("*")
        kind = parameter.kind
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(kind, "")
        shown.append(f"{stars}{parameter.name}: Any" + ("" if parameter.default is parameter.empty else " = ..."))
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        shown.append("/")
    return f"def {name}({', '.join(shown)}) -> Any: ...\n"


def _exported() -> dict[str, object]:
    found = {name: thing for name, thing in vars(pc).items() if not (name.startswith("_") or keyword.iskeyword(name))}
    return {n: t for n, t in found.items() if callable(t) and getattr(t, "__module__", "").startswith("pyarrow")}


def test_the_stub_names_what_is_there() -> None:
    there = _exported()
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            (made,) = ast.parse(_line(node.name, there[node.name])).body
            assert isinstance(made, ast.FunctionDef)
            assert [a.arg for a in node.args.kwonlyargs] == [a.arg for a in made.args.kwonlyargs], node.name
            assert len(node.args.posonlyargs) + len(node.args.args) == len(made.args.posonlyargs) + len(made.args.args)
        elif isinstance(node, ast.ClassDef):
            assert inspect.isclass(there[node.name])


if __name__ == "__main__":
    things = sorted(_exported().items(), key=lambda pair: (not inspect.isclass(pair[1]), pair[0]))
    STUB.write_text(HEAD + "".join(_line(*pair) for pair in things))
