"""CREATE, ALTER and DROP of models and connections, and what SHOW CREATE and DESCRIBE say of them.

A model is checked as far as that is possible without loading it: its provider, its options, its columns. What runs keeps
the model that it has, whatever becomes of the name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runtime.core.errors import CatalogError, OptionError, Span, UnsupportedError
from runtime.core.schema import Schema
from runtime.core.secrets import shown_value
from runtime.core.types import BOOLEAN, STRING
from runtime.spi.registry import check_options
from sqlengine.catalog.catalog import CONNECTION
from sqlengine.catalog.definitions import CatalogConnection, CatalogModel, NamedDefinition
from sqlengine.catalog.objects import PhysicalColumn
from sqlengine.database.binding import Binding
from sqlengine.database.models import PROVIDER, model_request
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result

__all__ = [
    "alter_definition",
    "create_connection",
    "create_model",
    "described_connection",
    "described_model",
    "drop_definition",
    "is_free",
]


_ABSENT = ("triton",)
"""Providers of Flink that are not there."""


def create_model(statement: st.CreateModel, session: Session) -> Result:
    """Make a model known by a name."""
    model = CatalogModel(
        path=session.catalogs.qualify(statement.name.parts),
        options=st.options_dict(statement.options),
        comment=statement.comment,
        temporary=statement.temporary,
        inputs=tuple(_column(c) for c in statement.inputs),
        outputs=tuple(_column(c) for c in statement.outputs),
    )
    if not is_free(model, session, statement.name.span, if_not_exists=statement.if_not_exists):
        return Result.ok()
    for word, columns in (("INPUT", statement.inputs), ("OUTPUT", statement.outputs)):
        _check_names(word, columns)
    if not model.options:
        raise OptionError(
            "a model has options", code="E1504", span=statement.name.span, hint="WITH ('provider' = '..')"
        )
    _check_model(model, session, statement.options)
    session.catalogs.define(model)
    return Result.ok()


def create_connection(statement: st.CreateConnection, session: Session) -> Result:
    """Make options known by a name."""
    connection = CatalogConnection(
        path=session.catalogs.qualify(statement.name.parts),
        options=st.options_dict(statement.options),
        comment=statement.comment,
        temporary=statement.temporary,
    )
    if not is_free(connection, session, statement.name.span, if_not_exists=statement.if_not_exists):
        return Result.ok()
    _check_connection(connection, statement.options, statement.span)
    session.catalogs.define(connection)
    return Result.ok()


def _column(column: ddl.PhysicalColumn) -> PhysicalColumn:
    return PhysicalColumn(column.name.text, column.type, column.comment)


def is_free(thing: NamedDefinition, session: Session, span: Span | None, *, if_not_exists: bool) -> bool:
    """Whether nothing has the name; raises CatalogError E1401 where that is not allowed."""
    if session.catalogs.twin_definition(thing, span) is None:
        return True
    if if_not_exists:
        return False
    raise CatalogError(
        f'the {thing.kind} "{thing.path.name}" exists already',
        code="E1401",
        span=span,
        hint=f"use IF NOT EXISTS, or DROP {thing.kind.upper()} first",
    )


def _check_names(word: str, columns: Sequence[ddl.PhysicalColumn]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.text in seen:
            raise CatalogError(
                f'{word} has two columns "{column.name}"',
                code="E1451",
                span=column.name.span,
                hint="give one of them another name",
            )
        seen.add(column.name.text)


def _check_model(model: CatalogModel, session: Session, given: Sequence[ddl.Option]) -> None:
    """Raise OptionError for options that are wrong, at their place. Of a provider of Flink that is not there nothing is
    known but its name."""
    if model.options.get(PROVIDER) in _ABSENT and not session.registry.models.knows(model.options[PROVIDER]):
        return
    spans = {option.key: option.span for option in given}
    try:
        provider, request = model_request(model, session, Binding(session, False))
        known = {option.key: option for option in provider.options}
        if known:
            check_options(request.options, set(known), f"model provider '{provider.name}'")
            for key, value in request.options.items():
                known[key].read(value)
        if provider.check is not None:
            provider.check(request)
    except OptionError as error:
        named = next((key for key in (*model.options, PROVIDER) if f"'{key}'" in error.message), None)
        error.span = error.span or spans.get(named or "") or spans.get(PROVIDER)
        raise


def _check_connection(connection: CatalogConnection, given: Sequence[ddl.Option], span: Span | None) -> None:
    if not connection.options:
        raise OptionError("a connection has options", code="E1504", span=span, hint="WITH ('username' = '..')")
    for option in given:
        if option.key in ("connector", PROVIDER, CONNECTION):
            raise OptionError(
                f"a connection cannot have the option '{option.key}'",
                code="E1503",
                span=option.span,
                hint="give it to the table or model: a connection says where a system is, and how one is let in",
            )


def alter_definition(statement: st.AlterModel | st.AlterConnection, session: Session) -> Result:
    """SET, RESET and RENAME TO of a model or connection."""
    kind = "model" if isinstance(statement, st.AlterModel) else CONNECTION
    catalogs, name = session.catalogs, statement.name
    if statement.if_exists and catalogs.find_definition(kind, catalogs.qualify(name.parts)) is None:
        return Result.ok()
    found = catalogs.definition(kind, name.parts, name.span)
    match statement.action:
        case ddl.RenameTo(name=other):
            renamed = replace(found, path=catalogs.qualify(other.parts))
            if (renamed.path.catalog, renamed.path.database) != (found.path.catalog, found.path.database):
                if len(other.parts) > 1:
                    raise CatalogError(
                        f"a {kind} stays in its database",
                        code="E1413",
                        span=other.span,
                        hint=f"CREATE {kind.upper()} there, and DROP this one",
                    )
                renamed = replace(found, path=replace(found.path, name=str(other).rpartition(".")[2]))
            is_free(renamed, session, other.span, if_not_exists=False)
            catalogs.undefine(found)
            catalogs.define(renamed)
            return Result.ok()
        case ddl.SetOptions(options=options):
            changed = replace(found, options={**found.options, **st.options_dict(options)})
        case ddl.ResetOptions(keys=keys):
            for key in keys:
                if key.text == PROVIDER:
                    raise OptionError(
                        "the option 'provider' cannot be reset",
                        span=key.span,
                        hint="SET another one, or DROP the model",
                    )
            gone = {key.text for key in keys}
            changed = replace(found, options={k: v for k, v in found.options.items() if k not in gone})
        case _:
            raise UnsupportedError(f"a {kind} takes SET, RESET and RENAME TO", span=statement.span)
    given = statement.action.options if isinstance(statement.action, ddl.SetOptions) else ()
    if isinstance(changed, CatalogModel):
        _check_model(changed, session, given)
    elif isinstance(changed, CatalogConnection):
        _check_connection(changed, given, statement.span)
    catalogs.define(changed)
    return Result.ok()


def drop_definition(statement: st.DropModel | st.DropConnection | st.DropProcedure, session: Session) -> Result:
    """Forget a model, connection or procedure."""
    kind = _KINDS[type(statement)]
    catalogs, name = session.catalogs, statement.name
    if statement.if_exists and catalogs.find_definition(kind, catalogs.qualify(name.parts)) is None:
        return Result.ok()
    found = catalogs.definition(kind, name.parts, name.span)
    if statement.temporary and not found.temporary:
        raise CatalogError(
            f'"{found.path.name}" is not a temporary {kind}',
            code="E1408",
            span=name.span,
            hint="leave out TEMPORARY",
        )
    if isinstance(found, CatalogConnection):
        _check_unused(found, session, name.span)
    catalogs.undefine(found)
    return Result.ok()


_KINDS: dict[type[st.Statement], str] = {
    st.DropModel: "model",
    st.DropConnection: CONNECTION,
    st.DropProcedure: "procedure",
}


def _check_unused(connection: CatalogConnection, session: Session, span: Span) -> None:
    """Raise CatalogError E1410 when a table or model of its database names the connection."""
    catalogs, home = session.catalogs, connection.path
    for thing in (
        *catalogs.objects(home.catalog, home.database),
        *catalogs.definitions("model", home.catalog, home.database),
    ):
        options: Mapping[str, str] = getattr(thing, "options", {})
        if options.get(CONNECTION, "").rpartition(".")[2] == home.name:
            raise CatalogError(
                f'the connection "{home.name}" is used by "{thing.path.name}"',
                code="E1410",
                span=span,
                hint="drop that first, or RESET its option 'connection'",
            )


# --- what is told of them
# ---------------------------------------------------------------------------------------------------------------------


def described_model(statement: st.Describe, session: Session) -> Result:
    """The columns of a model, as Flink's DESCRIBE shows them."""
    model = session.catalogs.definition("model", statement.name.parts, statement.name.span)
    assert isinstance(model, CatalogModel)
    rows = [
        (c.name, str(c.type.with_nullable(True)), c.type.nullable, is_input, c.comment)
        for is_input, columns in ((True, model.inputs), (False, model.outputs))
        for c in columns
    ]
    schema = Schema.of(
        ("name", STRING), ("type", STRING), ("null", BOOLEAN), ("is input", BOOLEAN), ("comment", STRING)
    )
    if not any(r[4] for r in rows):
        schema = Schema(schema.fields[:4])
    return Result.table(schema, [[r[i] for r in rows] for i in range(len(schema))])


def described_connection(statement: st.Describe, session: Session) -> Result:
    """The options of a connection, without its secrets."""
    thing = session.catalogs.definition(CONNECTION, statement.name.parts, statement.name.span)
    options = [(f"option:{k}", shown_value(k, v)) for k, v in sorted(thing.options.items())]
    pairs = [("name", thing.path.name), ("comment", thing.comment or ""), *options]
    schema = Schema.of(("info name", STRING), ("info value", STRING))
    return Result.table(schema, [[k for k, _ in pairs], [v for _, v in pairs]])
