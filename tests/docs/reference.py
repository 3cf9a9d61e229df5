"""The pages that follow from declarations: docs/functions.md as a whole, the tables of options in docs/connectors.

Examples of functions are the shortest of the recorded answers of Flink (tests/conformance) that are ours, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import ModuleType

from connectors.catalogue import standard_registry
from runtime.core.options import Option, parse_duration
from runtime.expr import library
from runtime.expr.function import AnyFunction, ScalarFunction
from sqlengine.bind import other_names
from sqlengine.table_options.lookups import LOOKUP_OPTIONS
from sqlengine.table_options.sources import SOURCE_OPTIONS
from sqlengine.table_options.watermarks import WATERMARK_OPTIONS
from sqlengine.text.functions import is_called_by_name, signature_texts
from tests.docs.pages import ROOT

__all__ = ["connector_names", "documented_functions", "functions_page", "with_option_tables"]

_SECTIONS: tuple[tuple[str, tuple[ModuleType, ...]], ...] = (
    ("Comparison and logic", (library.comparison, library.logical, library.conditional)),
    ("Numbers", (library.arithmetic, library.math, library.rounding, library.randomness, library.sequence)),
    ("Texts", (library.string, library.string_search, library.string_format, library.regex, library.url)),
    ("Bytes, encodings and hashes", (library.string_encoding, library.hash)),
    (
        "Dates and times",
        (
            library.temporal_fields,
            library.temporal_rounding,
            library.temporal_current,
            library.temporal_arithmetic,
            library.temporal_text,
        ),
    ),
    ("Types", (library.conversion,)),
    ("Arrays, maps and rows", (library.construct, library.collection, library.collection_maps, library.series)),
    ("Bitmaps", (library.bitmap,)),
    ("Vectors", (library.vector,)),
    ("JSON", (library.json_query, library.json_values)),
    ("Variants", (library.variant,)),
    (
        "What the dialect of PostgreSQL is read as",
        (
            library.postgres,
            library.postgres_numbers,
            library.postgres_texts,
            library.postgres_bytes,
            library.postgres_arrays,
            library.jsonb,
            library.jsonb_path,
        ),
    ),
    ("Others", (library.auxiliary,)),
    ("Aggregates", (library.aggregate,)),
    ("Windows and OVER", (library.window,)),
)
_HEAD = """\
# Functions

<!-- Made from the declarations in runtime/expr/library by `pytest tests/docs --rewrite`. -->

These are the functions of SQL and the [Table API](table_api.md). In the shell, `\\df` with the beginning of a name
lists them, and Tab completes them with their arguments. `SHOW FUNCTIONS` and `DESCRIBE FUNCTION` also cover functions
that you have created. Arguments in brackets are optional; `...` means that more may follow. The example results come
from Flink 2.3, and the tests compare this engine with them. [Flink compatibility](flink-compatibility.md) lists
intended differences.

A function of NULL is NULL unless its description says otherwise. Arguments are cast implicitly where SQL does so (an
INT to a BIGINT, a DATE to a TIMESTAMP). Otherwise the call is an error, which names the types that the function takes.
"""
_AGGREGATES = """
Aggregates take `DISTINCT` and `FILTER (WHERE ...)`; `ARRAY_AGG` and `LISTAGG` also `ORDER BY` between the parentheses
(`ARRAY_AGG(x ORDER BY y DESC)`), or `WITHIN GROUP (ORDER BY y)`. Flink has no such order. They are allowed in SELECT
with GROUP BY or windows, and most of them in OVER. All of them support input that updates or deletes rows.
"""
_OTHER_NAMES = """\
PostgreSQL, DuckDB, Spark, MySQL and SQL Server call some functions by other names. These are taken where they can mean
one thing only; functions of your own with such a name come first. `MEDIAN`, `PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY
x)` and the other aggregates keep their results right when rows are updated or deleted, as all aggregates do.
"""
_LONGEST_EXAMPLE = 80
_ARGUMENT = re.compile(r"<((?:[^<>]|<[^<>]*>)+)>")


# --- functions
# -----------------------------------------------------------------------------------------------------------------


def functions_page() -> str:
    """The text of docs/functions.md."""
    lines = [_HEAD]
    titles = [title for title, _ in _SECTIONS]
    lines.append(" · ".join(f"[{t}](#{t.lower().replace(',', '').replace(' ', '-')})" for t in titles) + "\n")
    examples = _examples()
    for title, modules in _SECTIONS:
        lines.append(f"## {title}\n")
        if title == "Aggregates":
            lines.append(_AGGREGATES.strip() + "\n")
        lines += ["| function | result | example |", "|---|---|---|"]
        lines += _rows([f for module in modules for f in _functions_of(module)], examples)
        lines.append("")
    lines += _other_names()
    return "\n".join(lines).rstrip() + "\n"


def _other_names() -> Iterable[str]:
    """The names of other systems, and what each stands for."""
    meanings = {f"{name}(...)": f"{same}(...)" for name, same in other_names.SAME_ARGUMENTS.items()}
    for (name, count), text in other_names.AS_EXPRESSIONS.items():
        marks = ", ".join(f"${number + 1}" for number in range(count))
        meanings[f"{name}({marks})"] = text
    yield "## Names of other systems\n"
    yield _OTHER_NAMES
    rows = {name: _code(text) for name, text in meanings.items()}
    rows |= {name: _cell(" ".join((rule.__doc__ or "").split())) for name, rule in other_names.BY_RULE.items()}
    yield "| name | stands for |\n|---|---|"
    yield from (f"| {_code(name)} | {text} |" for name, text in sorted(rows.items()))


def documented_functions() -> set[str]:
    """The names of all functions that have a row."""
    return {f.name for _, modules in _SECTIONS for module in modules for f in _functions_of(module)}


def _functions_of(module: ModuleType) -> Iterable[AnyFunction]:
    return module.FAMILY.functions if hasattr(module, "FAMILY") else module.FUNCTIONS


def _rows(functions: Iterable[AnyFunction], examples: Mapping[str, tuple[str, str]]) -> list[str]:
    """A row for each function; other names of one share its row."""
    together: dict[tuple[str, ...], list[str]] = {}
    for function in sorted({f.name: f for f in functions}.values(), key=lambda f: (f.name[:1].isalpha(), f.name)):
        together.setdefault((function.document, *_forms(function)), []).append(function.name)
    rows: list[str] = []
    for (document, *forms), names in together.items():
        example = next((examples[name] for name in names if name in examples), None)
        others = [name for name in names if not any(name in form for form in forms)]
        if len(names) == 1 and not (example and example[0].startswith(f"{names[0]}(")):
            others = []  # a name that only plans have
        shown = f"{_code(example[0])} → {_code(example[1])}" if example else ""
        rows.append(f"| {'<br>'.join(map(_code, [*forms, *others]))} | {_cell(document)} | {shown} |")
    return rows


def _forms(function: AnyFunction) -> list[str]:
    syntax = function.syntax if isinstance(function, ScalarFunction) else None
    if syntax:
        return [syntax]
    if not is_called_by_name(function):
        return [function.name]
    texts = [_ARGUMENT.sub(r"\1", text).replace(", [", "[, ").lower() for text in signature_texts(function)]
    return list(dict.fromkeys(function.name + text[len(function.name) :] for text in texts))[:4]


@cache
def _examples() -> dict[str, tuple[str, str]]:
    """Of each function a short expression and its value."""
    folder = ROOT / "tests" / "conformance"
    differ = {line.split()[0] for line in (folder / "differences.txt").read_text().splitlines() if line.strip()}
    best: dict[str, tuple[tuple[bool, int, str], str]] = {}
    for line in (folder / "vectors" / "expressions.jsonl").read_text(encoding="utf-8").splitlines():
        vector = json.loads(line)
        text = re.fullmatch(r"SELECT (.*) AS r", vector["sql"])
        if vector["id"] in differ or "value" not in vector or text is None or " FROM (" in text[1]:
            continue
        value = vector["value"].get("string", vector["value"]["json"])
        if not isinstance(value, str | None):
            continue
        plain = (value or "").isprintable() and text[1].isprintable() and text[1].isascii()
        if not plain or len(text[1]) > _LONGEST_EXAMPLE or len(value or "") > _LONGEST_EXAMPLE or value == "":
            continue
        rank = (value is None, len(text[1]), text[1])
        for name in {vector["function"], *re.findall(r"\b([A-Z][A-Z0-9_]+)\(", text[1])[:1]}:
            if name not in best or rank < best[name][0]:
                best[name] = (rank, "NULL" if value is None else value)
    return {name: (rank[2], value) for name, (rank, value) in best.items()}


def _code(text: str) -> str:
    marks = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{marks}{pad}{_cell(text)}{pad}{marks}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# --- connectors
# ----------------------------------------------------------------------------------------------------------------


def connector_names() -> tuple[list[str], list[str]]:
    """All connectors and all formats."""
    registry = standard_registry()
    return registry.connectors.names(), registry.formats.names()


def with_option_tables(page: str) -> str:
    """The page with the tables anew that stand below `<!-- options of NAME -->`."""
    return "\n".join(_with_tables(page.splitlines())) + "\n"


def _with_tables(lines: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        yield lines[at]
        marked = re.fullmatch(r"<!-- options of (\S+) -->", lines[at])
        at += 1
        if marked is None:
            continue
        yield from _table(marked[1])
        while at < len(lines) and lines[at].startswith("|"):
            at += 1


def _table(name: str) -> list[str]:
    registry = standard_registry()
    if name == "watermarks":
        options: Sequence[Option[object]] = WATERMARK_OPTIONS
        prefix = ""
    elif name == "sources":
        options, prefix = SOURCE_OPTIONS, ""
    elif name == "lookups":
        options, prefix = LOOKUP_OPTIONS, ""
    elif name in registry.connectors.names():
        options, prefix = registry.connectors.get(name).options, ""
    elif name in registry.models.names():
        options, prefix = registry.models.get(name).options, ""
    else:
        options, prefix = registry.formats.get(name).options, f"{name}."
    rows = [f"| `{prefix}{o.key}` | {_default(o)} | {_cell(_about(o))} |" for o in options]
    return ["| option | default | meaning |", "|---|---|---|", *rows]


def _about(option: Option[object]) -> str:
    about = option.description.removeprefix("true or false: ")
    named = all(f"'{choice}'" in about for choice in option.choices)
    return about if named else f"{about}: " + ", ".join(f"`{choice}`" for choice in option.choices)


def _default(option: Option[object]) -> str:
    value = option.default
    if value == "":
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int) and option._read is parse_duration:
        return f"`{_duration(value)}`" if value else ""
    return f"`{value}`"


def _duration(milliseconds: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"
