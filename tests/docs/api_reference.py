"""docs/python_api.md: every public name of Python, with what its docstring begins with."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator

import sqlengine
from sqlengine.api.environment import Config
from sqlengine.api.pushed_input import Input
from sqlengine.results.async_items import AsyncItems
from sqlengine.results.following import Listener
from sqlengine.results.result import AsyncRows, RowIterator
from sqlengine.statements.prepared_statement import PreparedStatement
from sqlengine.table_api.grouped import GroupedTable
from sqlengine.table_api.outcomes import TablePipeline

__all__ = ["api_page"]

_HEAD = """\
# The Python API

<!-- Made from the docstrings by `pytest tests/docs --rewrite`. -->

`from sqlengine import ...` imports the names of the first table. Their methods return the classes of the other
tables. [The Table API](table_api.md) shows how to use them. Methods of expressions are the [functions](functions.md)
of SQL.
"""
_CLASSES: tuple[type, ...] = (
    sqlengine.TableEnvironment,
    Config,
    sqlengine.Result,
    RowIterator,
    AsyncRows,
    AsyncItems,
    Listener,
    sqlengine.JobClient,
    Input,
    sqlengine.Table,
    GroupedTable,
    TablePipeline,
    PreparedStatement,
    sqlengine.StatementSet,
)


def api_page() -> str:
    """The page."""
    tables = [_table("Names", ((name, getattr(sqlengine, name)) for name in sorted(sqlengine.__all__, key=str.lower)))]
    tables += [_table(f"`{c.__name__}`", _members(c)) for c in _CLASSES]
    return _HEAD + "".join(tables)


def _members(owner: type) -> Iterator[tuple[str, object]]:
    for name, member in inspect.getmembers(owner):
        if not name.startswith("_") and (callable(member) or isinstance(member, property)):
            yield name, member


def _table(title: str, members: Iterator[tuple[str, object]]) -> str:
    rows = "".join(f"| `{name}{_arguments(member)}` | {_begin(name, member)} |\n" for name, member in members)
    return f"\n## {title}\n\n| | |\n|---|---|\n{rows}"


def _arguments(member: object) -> str:
    """The names of the arguments of a function; those that may be left out in brackets."""
    if isinstance(member, (property, type)) or not callable(member):
        return ""
    found: list[str] = []
    for p in inspect.signature(member).parameters.values():
        if p.name == "self":
            continue
        name = f"*{p.name}" if p.kind is p.VAR_POSITIONAL else f"**{p.name}" if p.kind is p.VAR_KEYWORD else p.name
        found.append(name if p.default is p.empty else f"[{name}]")
    return f"({', '.join(found)})"


def _begin(name: str, member: object) -> str:
    """The first sentence of a docstring."""
    if not callable(member) and not isinstance(member, property):
        return "a bound of OVER windows" if not isinstance(member, enum.Enum) else ""
    text = inspect.getdoc(member) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    assert paragraph, f"{name} has no docstring"
    sentence = re.match(r".*?[.:](?= [A-Z`]|$)", paragraph)
    return (sentence.group() if sentence else paragraph).rstrip(":").replace("|", "\\|")
