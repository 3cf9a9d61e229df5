"""Models as queries ask them: what the catalog says of one, its connection's options, and its provider."""

from __future__ import annotations

from sqlglot import exp

from connectors.models.table import ModelTable
from runtime.core.errors import CatalogError, OptionError
from runtime.core.schema import Schema
from runtime.core.secrets import refers
from runtime.expr.nodes import Expr, fresh_column
from runtime.expr.rewrite import to_input_refs
from runtime.spi.model import ModelProvider, ModelRequest
from sqlengine.bind import bind_expression
from sqlengine.catalog.definitions import CatalogModel, NamedDefinition
from sqlengine.catalog.objects import BindContext
from sqlengine.database.acting import with_secrets
from sqlengine.database.session import Session
from sqlengine.parse.nodes import FunctionCall
from sqlengine.roles.authority import Authority
from sqlengine.roles.privileges import Target

__all__ = ["PROVIDER", "model_request", "opened_model"]

PROVIDER = "provider"


def opened_model(model: NamedDefinition, session: Session, context: BindContext) -> ModelTable:
    """A model as a table that is looked up. Raises what its provider raises: OptionError, ConnectorError."""
    assert isinstance(model, CatalogModel)
    provider, request = model_request(model, session, context)
    for word, columns in (("INPUT", model.inputs), ("OUTPUT", model.outputs)):
        if not columns:
            raise CatalogError(
                f'the model "{model.path.name}" has no {word}',
                code="E1451",
                hint="write CREATE MODEL m INPUT (a DOUBLE) OUTPUT (y DOUBLE) WITH (..)",
            )
    return ModelTable(str(model.path), model.input_schema, model.output_schema, provider.create(request))


def model_request(model: CatalogModel, session: Session, context: BindContext) -> tuple[ModelProvider, ModelRequest]:
    """The provider of a model, and what it is told. Raises OptionError E1504 and E1514."""
    options = session.catalogs.with_connection(model.options, model.path)
    name = options.get(PROVIDER)
    if name is None:
        known = ", ".join(session.registry.models.names())
        raise OptionError("a model needs the option 'provider'", code="E1504", hint=f"there is: {known}")
    provider = session.registry.models.get(name)
    inputs = model.input_schema

    def call(function: str) -> Expr:
        return _call(function, inputs, context)

    given = {key: value for key, value in options.items() if key != PROVIDER}
    if refers(given):
        owner = None
        if session.authority is not None:
            roles = session.database.roles
            owner = Authority(roles, roles.owner(Target("model", model.path.parts)))
        given = with_secrets(session, given, owner)
    if session.database.outside is not None:
        session.database.outside.check(given)
    request = ModelRequest(
        str(model.path),
        inputs,
        model.output_schema,
        given,
        session.options,
        call,
        session.functions,
        session.time_zone,
    )
    return provider, request


def _call(name: str, inputs: Schema, context: BindContext) -> Expr:
    """The call of a registered function with the inputs, as `InputRef`s. Raises BindError."""
    columns = tuple(fresh_column(f.name, f.type) for f in inputs)
    arguments = [exp.Column(this=exp.to_identifier(c.name, quoted=True)) for c in columns]
    bound = bind_expression(
        FunctionCall(this=name, expressions=arguments), columns, context, place=f"the function {name}"
    )
    return to_input_refs(bound, columns)
