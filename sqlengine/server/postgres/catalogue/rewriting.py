"""Questions to the catalogue in PostgreSQL's words, to DuckDB's.

Nothing here knows a query: names of tables and functions, casts to PostgreSQL's own types, operators and subscripts are
replaced wherever they stand. sqlglot reads and writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from runtime.expr.library.sequence import NUMBER_FUNCTIONS
from sqlengine.server.postgres.catalogue.definitions import CLASSES, COLUMNS, FUNCTIONS, PREFIX
from sqlengine.server.postgres.catalogue.relations import (
    LIVE_SCHEMA,
    OwnTable,
    home,
    own_tables,
    take_own_tables,
)
from sqlengine.server.postgres.parameter_values import array_items
from sqlengine.server.postgres.types import ARRAYS, TYPES, PgType
from sqlengine.server.postgres.words import scan

__all__ = ["VECTORS", "Question", "rewritten"]

_MAY_CONCERN = re.compile(
    r"\bpg_\w+|\binformation_schema\b|\bcurrent_(?:schemas?|database|setting|catalog|user|role)\b|\bsession_user\b|\bversion\s*\("
    r"|\bset_config\b|\breg(?:class|type|proc|namespace|oper)\b|\bto_reg\w+|\bformat_type\b|_description\b|\bhas_\w+_privilege\b"
    r"|\bquote_ident\b|\btxid_current\b|\binet_\w+",
    re.IGNORECASE,
)
_OIDS = re.compile(r"::\s*(?:pg_catalog\.)?oid\[\]", re.IGNORECASE)
"""Which sqlglot does not read; `_oid` is the same type."""
_WITHOUT_NAME: dict[type[exp.Expr], str] = {
    exp.CurrentSchema: "current_schema",
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
}
_NAMED_OTHERWISE = ("CurrentVersion", "Version", "CurrentDatabase")
"""What versions of sqlglot call functions; the engine's `current_database` is another one."""
_DUCKDB = {"json_build_object": "json_object", "jsonb_build_object": "json_object", "json_build_array": "json_array"}
"""Functions that DuckDB has under another name."""
VECTORS = frozenset(("indkey", "indclass", "indoption", "indcollation", "proargtypes"))
"""Columns that are int2vector or oidvector: arrays that count from 0, and have a text of their own."""
_PLAIN = {
    "oid": "UINTEGER", "_oid": "UINTEGER[]", "xid": "UINTEGER", "cid": "UINTEGER", "int2vector": "SMALLINT[]", "oidvector": "UINTEGER[]",
    **dict.fromkeys(
        ("name", "char", "text", "cstring", "regproc", "regprocedure", "regoper", "regoperator", "regrole",
         "pg_node_tree", "aclitem", "anyarray"),
        "VARCHAR",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A question in DuckDB's SQL. `described`: the same without rows, for names and types of its columns. `live`: tables that are
    filled for it; `asks_sizes`: whether it asks how large something is; `vectors`: places of columns that are
    PostgreSQL's vectors of numbers; `parameters`: the types that casts give to parameters, by number; `own`: tables and
    views of users that it reads, too."""

    text: str
    described: str
    live: frozenset[str]
    asks_sizes: bool
    vectors: frozenset[int]
    parameters: Mapping[int, PgType]
    own: tuple[OwnTable, ...] = ()


def rewritten(text: str) -> Question | None:
    """The question in DuckDB's SQL; None when it is not (only) about the catalogue."""
    if _MAY_CONCERN.search(text) is None:
        return None
    try:
        tree = sqlglot.parse_one(_apart(_OIDS.sub("::_oid", text)), read="postgres")
    except SqlglotError:
        return None
    if not isinstance(tree, exp.Query) or not _concerns(tree):
        return None
    names, shown = _names(tree), _shown_as_names(tree)
    live = frozenset(t.name.lower() for t in tree.find_all(exp.Table) if home(t) == LIVE_SCHEMA)
    parameters = _parameters(tree)
    vectors = _vectors(_first_select(tree).expressions)
    asks_sizes = any(node.name.lower().endswith("_size") for node in tree.find_all(exp.Anonymous))
    own = take_own_tables(tree)
    for select in tree.find_all(exp.Select):
        _qualify(select)
    # Leaves first, so that what takes the place of a node has what took the places of its parts.
    for node in reversed(list(tree.walk())):
        made = _node(node)
        if made is not node:
            node.replace(made)
    for place, function in shown.items():
        items = list(_first_select(tree).expressions)
        item = items[place]
        value = item.this if isinstance(item, exp.Alias) else item
        made = exp.Anonymous(
            this=PREFIX + function, expressions=[value.copy(), *([exp.null()] if function == "format_type" else [])]
        )
        items[place] = exp.alias_(made, item.alias, quoted=True) if isinstance(item, exp.Alias) else made
        _first_select(tree).set("expressions", items)
    if names is not None:
        _first_select(tree).set(
            "expressions", [_named(e, n) for e, n in zip(_first_select(tree).expressions, names, strict=True)]
        )
    described = tree.limit(0, copy=True).sql(dialect="duckdb")
    return Question(tree.sql(dialect="duckdb"), described, live, asks_sizes, vectors, parameters, own)


def _apart(text: str) -> str:
    """The text with a blank behind each parameter: of `$1,$2` sqlglot reads the beginning as that of a text in dollars."""
    if "$" not in text:
        return text
    parts, done = [], 0
    words = list(scan(text))
    for sign, number in pairwise(words):
        if text[sign.start : sign.end] == "$" and number.kind == "number":
            parts.append(text[done : number.end])
            done = number.end
    return " ".join([*parts, text[done:]])


_PARAMETERS = {
    "bigint": TYPES["int8"], "int": TYPES["int4"], "integer": TYPES["int4"], "oid": TYPES["oid"], "boolean": TYPES["bool"],
    "_oid": ARRAYS[TYPES["oid"].array],
}  # fmt: skip
_ARGUMENTS = {
    "pg_cancel_backend": (TYPES["int4"],),
    "pg_terminate_backend": (TYPES["int4"], TYPES["int8"]),
    "pg_sleep": (TYPES["float8"],),
}
"""The types of arguments of functions that are not given texts."""


def _parameters(tree: exp.Expr) -> dict[int, PgType]:
    """Of numbers and arrays; all others are texts, as DuckDB takes them."""
    found: dict[int, PgType] = {}
    for cast in tree.find_all(exp.Cast):
        number = cast.this.name if isinstance(cast.this, exp.Parameter) else ""
        name = _type_name(cast.to)
        type_ = _PARAMETERS.get(name.removesuffix("[]"), TYPES["text"] if name.endswith("[]") else None)
        if number.isdecimal() and type_ is not None:
            found[int(number)] = ARRAYS[type_.array] if name.endswith("[]") else type_
    for call in tree.find_all(exp.Anonymous):
        for argument, type_ in zip(call.expressions, _ARGUMENTS.get(call.name.lower(), ())):
            if isinstance(argument, exp.Parameter) and argument.name.isdecimal():
                found.setdefault(int(argument.name), type_)
    return found


def _vectors(items: list[exp.Expr]) -> frozenset[int]:
    """The places of vectors among the columns of a result; none where a star has some of them."""
    columns = [item.unalias() for item in items]
    if any(column.is_star for column in columns):
        return frozenset()
    return frozenset(i for i, c in enumerate(columns) if isinstance(c, exp.Column) and c.name.lower() in VECTORS)


def _first_select(tree: exp.Expr) -> exp.Expr:
    """The query whose columns give those of the whole their names."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tree


_NAMING = {"regclass": "_regclass_name", "regnamespace": "_regnamespace_name", "regtype": "format_type"}


def _shown_as_names(tree: exp.Expr) -> dict[int, str]:
    """Columns of the result in which a name is read as the number of an object, by place: they are shown as names."""
    select = _first_select(tree)
    found: dict[int, str] = {}
    for place, item in enumerate(select.expressions if isinstance(select, exp.Select) else ()):
        value = item.this if isinstance(item, exp.Alias) else item
        if isinstance(value, exp.Cast) and isinstance(value.this, exp.Literal):
            function = _NAMING.get(_type_name(value.to))
            if function is not None:
                found[place] = function
    return found


def _names(tree: exp.Expr) -> list[str] | None:
    """The names of the result's columns as PostgreSQL gives them; "" for a star."""
    select = _first_select(tree)
    return [_name_of(e) for e in select.expressions] if isinstance(select, exp.Select) else None


def _named(expression: exp.Expr, name: str) -> exp.Expr:
    if not name or isinstance(expression, exp.Alias):
        return expression
    return exp.alias_(expression, name, quoted=True)


def _name_of(expression: exp.Expr) -> str:
    match expression:
        case exp.Star() | exp.Alias():
            return ""
        case exp.Column():
            return "" if isinstance(expression.this, exp.Star) else expression.name
        case exp.Cast():
            inner = _name_of(expression.this)
            return inner if inner != "?column?" else _type_name(expression.to)
        case exp.Dot():
            return (
                _name_of(expression.expression)
                if not isinstance(expression.expression, exp.Identifier)
                else expression.expression.name
            )
        case exp.Anonymous():
            return expression.name.lower()
        case exp.Case():
            return "case"
        case exp.Func():
            known = {"CURRENT_VERSION": "version", "GROUP_CONCAT": "string_agg"}
            return known.get(expression.sql_name(), expression.sql_name().lower())
        case exp.Paren() | exp.Subquery():
            return "?column?" if isinstance(expression, exp.Subquery) else _name_of(expression.this)
        case _:
            return "?column?"


def _concerns(tree: exp.Expr) -> bool:
    """Whether something that it reads is of the catalogue, or nothing is of users and it calls functions of the catalogue;
    beside tables of users those that the engine does not have."""
    if any(home(table) is not None for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)):
        return True
    # Sequences are no tables of the catalogue; FORMAT of DuckDB is another one.
    if any(isinstance(node, exp.Anonymous) and node.name.upper() in NUMBER_FUNCTIONS for node in tree.walk()):
        return False
    if any(own_tables(tree)):
        return any(map(_is_unknown_to_the_engine, tree.walk()))
    return any(map(_is_own_function, tree.walk())) and not any(
        isinstance(node, exp.Func) and "FORMAT" in (node.sql_name(), node.name.upper()) for node in tree.walk()
    )


def _is_unknown_to_the_engine(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        return name in FUNCTIONS and name.startswith("pg_") and name != "pg_typeof"
    return type(node).__name__ in _NAMED_OTHERWISE


def _is_own_function(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in FUNCTIONS and node.name.lower() != "pg_typeof"
    if isinstance(node, exp.Cast):
        return _type_name(node.to).startswith("reg")
    return type(node) in _WITHOUT_NAME or type(node).__name__ in _NAMED_OTHERWISE


def _qualify(select: exp.Select) -> None:
    """Give the columns of a query the names of their tables, where one table of the catalogue has them."""
    sources = _sources(select)
    if any(t.name.startswith("own_") and home(t) is None for t in sources):
        # Which has a column, DuckDB knows.
        return
    tables = [t for t in sources if t.name.lower() in COLUMNS]
    for column in select.find_all(exp.Column):
        if column.table or isinstance(column.this, exp.Star) or column.find_ancestor(exp.Select) is not select:
            continue
        homes = [t for t in tables if column.name.lower() in COLUMNS[t.name.lower()]]
        if len(homes) == 1:
            column.set("table", exp.to_identifier(homes[0].alias_or_name))


def _sources(select: exp.Select) -> list[exp.Table]:
    """The tables in its FROM."""
    parts = [select.args.get("from_") or select.args.get("from"), *(select.args.get("joins") or [])]
    return [p.this for p in parts if p is not None and isinstance(p.this, exp.Table)]


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=PREFIX + name, expressions=list(arguments))


def _node(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Table():
            return _table(node)
        case exp.Collate():
            return node.this
        case exp.Dot():
            return _dot(node)
        case exp.Anonymous():
            name = node.name.lower()
            if name in _DUCKDB:
                return exp.Anonymous(this=_DUCKDB[name], expressions=node.expressions)
            return _call(name, *node.expressions) if name in FUNCTIONS else node
        case exp.Cast() | exp.TryCast():
            return _cast(node)
        case exp.Operator():
            return _operator(node)
        case exp.Bracket():
            return _subscript(node)
        case exp.Column():
            return _column(node)
        case _:
            pass
    if type(node) in _WITHOUT_NAME:
        return _call(_WITHOUT_NAME[type(node)])
    if type(node).__name__ in ("CurrentVersion", "Version"):
        return _call("version")
    if type(node).__name__ == "CurrentDatabase":
        return _call("current_database")
    name = node.sql_name().lower() if isinstance(node, exp.Func) else ""
    if (
        name in ("array_to_string", "string_to_array", "array_remove", "array_length", "array_upper", "array_lower")
        and name in FUNCTIONS
    ):
        arguments = [node.args[k] for k in node.arg_types if isinstance(node.args.get(k), exp.Expr)]
        return _call(name, *arguments)
    return node


def _table(node: exp.Table) -> exp.Expr:
    if not isinstance(node.this, exp.Identifier):
        # A function in FROM, without its schema.
        if node.db:
            node.set("db", None)
        return _function_in_from(node)
    schema = home(node)
    if schema is None:
        return node
    made = node.copy()
    made.set("db", exp.to_identifier(schema))
    made.set("catalog", None)
    if not made.alias:
        made = exp.alias_(made, node.name, table=True)
    return made


def _function_in_from(node: exp.Table) -> exp.Expr:
    """Its column has the name that stands behind it; a function of one value is a row of it."""
    name = node.alias
    if not name or node.args["alias"].args.get("columns"):
        return node
    match node.this:
        case exp.ExplodingGenerateSeries():
            series = exp.Anonymous(this="generate_series", expressions=[node.this.args["start"], node.this.args["end"]])
            value: exp.Expr = exp.Anonymous(this="unnest", expressions=[series])
        case exp.Anonymous() if node.this.name == PREFIX + "string_to_array":
            value = node.this
        case _:
            return node
    return exp.Subquery(
        this=exp.select(exp.alias_(value.copy(), name, quoted=True)), alias=exp.TableAlias(this=exp.to_identifier(name))
    )


def _dot(node: exp.Dot) -> exp.Expr:
    """`pg_catalog.format_type(..)` without its schema."""
    if isinstance(node.this, exp.Identifier) and node.this.name.lower() in ("pg_catalog", "information_schema"):
        inner = node.expression
        return inner
    return node


def _column(node: exp.Column) -> exp.Expr:
    """Words that are functions without parentheses; columns of a table that is named with its schema."""
    name = node.name.lower()
    if not node.table and isinstance(node.this, exp.Identifier) and not node.this.quoted:
        if name in ("current_user", "session_user", "user", "current_role", "current_catalog", "current_schema"):
            return _call("current_user" if name == "current_role" else name)
    if name == "tableoid":
        return exp.cast(
            exp.Literal.number(CLASSES.get(_table_of(node), 0)), exp.DataType.build("UINTEGER", dialect="duckdb")
        )
    if node.db.lower() in ("pg_catalog", "information_schema"):
        made = node.copy()
        made.set("db", None)
        made.set("catalog", None)
        return made
    return node


def _table_of(node: exp.Column) -> str:
    """The table of the catalogue that a column is said to be of."""
    select = node.find_ancestor(exp.Select)
    tables = (
        []
        if select is None
        else [t for t in select.find_all(exp.Table) if not node.table or t.alias_or_name == node.table]
    )
    return tables[0].name.lower() if len(tables) == 1 else ""


def _type_name(type_: exp.Expr | None) -> str:
    """A type's name in lower case, without its schema."""
    if type_ is None:
        return ""
    text = type_.sql(dialect="postgres").lower().strip('"')
    return text.removeprefix("pg_catalog.").strip('"')


def _cast(node: exp.Cast) -> exp.Expr:
    name, value = _type_name(node.to), node.this
    is_name = isinstance(value, exp.Literal | exp.Parameter | exp.Placeholder) or (
        isinstance(value, exp.Cast) and _type_name(value.to) in ("text", "varchar", "name")
    )
    is_name = is_name or (isinstance(value, exp.Anonymous) and value.name == PREFIX + "pg_get_serial_sequence")
    if name == "regclass":
        return _call("_regclass_there" if is_name else "_regclass_name", value)
    if name == "regnamespace":
        return _call("_regnamespace" if is_name else "_regnamespace_name", value)
    if name == "regproc" and is_name:
        return _call("_regproc", value)
    if name == "regtype":
        return _call("_regtype", value) if is_name else _call("format_type", value, exp.null())
    array = name.endswith("[]")
    if array and isinstance(value, exp.Literal) and value.name.startswith("{"):
        # '{a,b}' is no list in DuckDB. What is none in PostgreSQL either, DuckDB tells.
        with suppress(ValueError):
            items = array_items(value.name)
            value = exp.Array(expressions=[exp.null() if i is None else exp.Literal.string(i) for i in items])
    plain = _PLAIN.get(name.removesuffix("[]"))
    if plain is not None:
        return exp.cast(value, exp.DataType.build(plain + ("[]" if array else ""), dialect="duckdb"))
    return node


def _operator(node: exp.Operator) -> exp.Expr:
    sign = str(node.args.get("operator", "")).rpartition(".")[2].strip()
    left, right = node.this, node.expression
    match sign:
        case "~":
            return exp.RegexpLike(this=left, expression=right)
        case "!~":
            return exp.not_(exp.RegexpLike(this=left, expression=right))
        case "~*":
            return exp.RegexpILike(this=left, expression=right)
        case "!~*":
            return exp.not_(exp.RegexpILike(this=left, expression=right))
        case "=":
            return exp.EQ(this=left, expression=right)
        case "<>":
            return exp.NEQ(this=left, expression=right)
        case "~~":
            return exp.Like(this=left, expression=right)
        case "!~~":
            return exp.not_(exp.Like(this=left, expression=right))
        case _:
            return node


def _subscript(node: exp.Bracket) -> exp.Expr:
    """Vectors of PostgreSQL's catalogue count from 0."""
    if isinstance(node.this, exp.Column) and node.this.name.lower() in VECTORS:
        made = node.copy()
        made.set("expressions", [exp.paren(e.copy() + 1) for e in node.expressions])
        return made
    return node
