"""Modules and JARs of Flink. There is one module, `core`, and its functions stay when it is unloaded: in Flink, too, those
of standard SQL do. A JAR brings nothing here, and a script that adds one goes on."""

from __future__ import annotations

from runtime.core.errors import CatalogError, UnsupportedError, did_you_mean
from sqlengine.database.session import Session
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.ddl_nodes import Name
from sqlengine.results.result import Result

__all__ = ["add_jar", "load_module", "unload_module", "use_modules"]

_CORE = "core"
_NO_JVM = (
    "there is no JVM here, so a JAR changes nothing: connectors are installed with pip, and "
    "CREATE FUNCTION f AS 'package.module.function' LANGUAGE PYTHON takes a function of yours"
)


def load_module(statement: st.LoadModule, session: Session) -> Result:
    """Raises CatalogError E1401 when it is loaded, UnsupportedError E1604 when there is none of that name."""
    name = statement.name
    if name.text in session.modules:
        raise CatalogError(f"the module {name.text} is loaded already", code="E1401", span=name.span)
    if name.text != _CORE:
        raise UnsupportedError(
            f"there is no module {name.text}",
            code="E1604",
            span=name.span,
            hint=did_you_mean(name.text, [_CORE])
            or "all functions are there without modules: SHOW FUNCTIONS lists them",
        )
    session.modules[name.text] = True
    return Result.ok()


def unload_module(statement: st.UnloadModule, session: Session) -> Result:
    _check_loaded(statement.name, session)
    del session.modules[statement.name.text]
    return Result.ok()


def use_modules(statement: st.UseModules, session: Session) -> Result:
    """Those that are named are used, in this order; the others stay loaded."""
    for position, name in enumerate(statement.names):
        _check_loaded(name, session)
        if name.text in [n.text for n in statement.names[:position]]:
            raise CatalogError(f"the module {name.text} is named twice", code="E1401", span=name.span)
    used = {name.text: True for name in statement.names}
    session.modules = {**used, **dict.fromkeys((n for n in session.modules if n not in used), False)}
    return Result.ok()


def _check_loaded(name: Name, session: Session) -> None:
    if name.text not in session.modules:
        hint = did_you_mean(name.text, session.modules) or "SHOW FULL MODULES lists those that are loaded"
        raise CatalogError(f"there is no module {name.text}", code="E1414", span=name.span, hint=hint)


def add_jar(statement: st.AddJar | st.RemoveJar, session: Session) -> Result:
    """Tells that it changes nothing."""
    session.notes.append((_NO_JVM, statement.span))
    return Result.ok()
