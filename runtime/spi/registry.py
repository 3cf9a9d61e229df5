"""Where connectors and formats are found by name.

Ours are listed by `connectors/catalogue.py`; third parties add theirs under the entry-point groups
`sqlengine.connectors`, `sqlengine.formats`, `sqlengine.catalogs` and `sqlengine.models`. Options
are read through declared `Option`s, and an option nobody declared is an error.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runtime.core.errors import OptionError, did_you_mean
from runtime.core.options import Option, Options
from runtime.core.schema import Schema
from runtime.spi.catalog import CatalogFactory, ForeignTable
from runtime.spi.format import Format
from runtime.spi.lookup import LookupTable
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable

if TYPE_CHECKING:
    from runtime.spi.model import ModelProvider

__all__ = ["ConnectorFactory", "FormatFactory", "Registry", "TableRequest", "check_options"]


@dataclass(frozen=True, slots=True)
class TableRequest:
    """What a connector is told about a table: name, the columns it must give or take, key, options.

    `schema` holds physical columns; `metadata` the metadata columns wanted as (column name, metadata key), whose fields
    come after the physical ones in `schema`. `environment` are the session's options.
    """

    name: str
    schema: Schema
    primary_key: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)
    environment: Options
    metadata: tuple[tuple[str, str], ...] = ()
    partitioned_by: tuple[str, ...] = ()
    time_zone: str = "UTC"
    registry: Registry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorFactory:
    """A connector: its name, what it can do (None where it cannot), and one line about it. `metadata` are the readable
    metadata keys and types; `options` what WITH takes, checked when a table is declared.
    `prefixes` begin keys that the connector checks itself. `check`: called with a table that is declared, raises what can be told
    without opening anything. A connector that gives neither options nor check is asked when its table is used.
    `infer`: finds the columns of a table that is declared without any; raises ConnectorError, FormatError or OptionError
    when they cannot be told.
    `source` gives None for a table that its options make one that is asked by key alone.
    `from_moment`: the options with which a source begins with what came at a moment, milliseconds since 1970, or later; None
    where that is not known."""

    name: str
    document: str
    source: Callable[[TableRequest], SourceTable | None] | None = None
    sink: Callable[[TableRequest], SinkTable] | None = None
    lookup: Callable[[TableRequest], LookupTable] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Option[Any], ...] = ()
    prefixes: tuple[str, ...] = ()
    check: Callable[[TableRequest], object] | None = None
    infer: Callable[[TableRequest], ForeignTable] | None = None
    from_moment: Callable[[int], Mapping[str, str]] | None = None

    @property
    def declares(self) -> bool:
        """Whether its options are known."""
        return bool(self.options) or self.check is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatFactory:
    """A format: `create(options)` gets the options under the format's own prefix, with the prefix taken off
    (`csv.header` -> `header`); `options` are declared without it, too."""

    name: str
    document: str
    create: Callable[[Mapping[str, str]], Format]
    options: tuple[Option[Any], ...] = ()


F = TypeVar("F", ConnectorFactory, FormatFactory, CatalogFactory, "ModelProvider")
_UNKNOWN = {"connector": "E1501", "format": "E1502", "catalog type": "E1507", "model provider": "E1514"}


class _Shelf(Generic[F]):
    """Factories by name. A factory's module is loaded when it is first asked for, so that a query pays for what it
    uses."""

    def __init__(self, what: str, group: str) -> None:
        self._what = what
        self._group = group
        self._found: dict[str, F] = {}
        self._targets: dict[str, str] = {}
        self._entry_points_read = False

    def add(self, factory: F) -> None:
        """Register a factory; raises ValueError when its name is taken."""
        self._refuse_taken(factory.name)
        self._found[factory.name] = factory

    def announce(self, name: str, target: str) -> None:
        """Register a factory by where it is, `package.module:ATTRIBUTE`, as an entry point does."""
        self._refuse_taken(name)
        self._targets[name] = target

    def _refuse_taken(self, name: str) -> None:
        if name in self._found or name in self._targets:
            raise ValueError(f"{self._what} {name} is registered twice")

    def get(self, name: str) -> F:
        """The factory of a name; raises OptionError E1501 (connector), E1502 (format), E1507 (type of a catalog) or
        E1514 (provider of models) with near names."""
        if name not in self._found:
            target = self._target(name)
            if target is None:
                known = self.names()
                raise OptionError(
                    f"unknown {self._what} '{name}'",
                    code=_UNKNOWN[self._what],
                    hint=did_you_mean(name, known) or "there is: " + ", ".join(known),
                )
            self._found[name] = pkgutil.resolve_name(target)
        return self._found[name]

    def _target(self, name: str) -> str | None:
        if name not in self._targets and not self._entry_points_read:
            self._entry_points_read = True
            for point in entry_points(group=self._group):
                self._targets.setdefault(point.name, point.value)
        return self._targets.get(name)

    def knows(self, name: str) -> bool:
        """Whether there is a factory of this name."""
        return name in self._found or self._target(name) is not None

    def names(self) -> list[str]:
        return sorted({*self._found, *self._targets})


class Registry:
    """All connectors, formats, types of catalogs and providers of models of an environment."""

    def __init__(self) -> None:
        self.connectors: _Shelf[ConnectorFactory] = _Shelf("connector", "sqlengine.connectors")
        self.formats: _Shelf[FormatFactory] = _Shelf("format", "sqlengine.formats")
        self.catalogs: _Shelf[CatalogFactory] = _Shelf("catalog type", "sqlengine.catalogs")
        self.models: _Shelf[ModelProvider] = _Shelf("model provider", "sqlengine.models")

    def format(self, name: str, options: Mapping[str, str]) -> Format:
        """The format of a table: its own options are those with its name as prefix."""
        factory = self.formats.get(name)
        prefix = name + "."
        return factory.create({k[len(prefix) :]: v for k, v in options.items() if k.startswith(prefix)})


def check_options(options: Mapping[str, str], known: set[str], where: str, prefixes: tuple[str, ...] = ()) -> None:
    """Raise OptionError for an option that nobody declared, with near names."""
    for key in options:
        if key not in known and not key.startswith(prefixes or ("\0",)):
            raise OptionError(
                f"unknown option '{key}' for {where}",
                code="E1503",
                hint=did_you_mean(key, known)
                or ("it takes: " + ", ".join(sorted(known)) if known else "it takes none"),
            )
