"""The list of connectors and formats is true."""

from __future__ import annotations

import pytest

from connectors.absent import ABSENT_CONNECTORS
from connectors.catalogue import CATALOGS, CONNECTORS, FORMATS, standard_registry
from runtime.core.errors import OptionError
from runtime.spi.catalog import CatalogFactory
from runtime.spi.registry import ConnectorFactory, FormatFactory


@pytest.mark.parametrize("name", CONNECTORS)
def test_connector(name: str) -> None:
    factory = standard_registry().connectors.get(name)
    assert isinstance(factory, ConnectorFactory)
    assert factory.name == name


@pytest.mark.parametrize("name", FORMATS)
def test_format(name: str) -> None:
    factory = standard_registry().formats.get(name)
    assert isinstance(factory, FormatFactory)
    assert factory.name == name


@pytest.mark.parametrize("name", CATALOGS)
def test_catalog(name: str) -> None:
    factory = standard_registry().catalogs.get(name)
    assert isinstance(factory, CatalogFactory)
    assert factory.name == name


def test_an_unknown_name_lists_what_is_near() -> None:
    with pytest.raises(OptionError, match="unknown connector 'filesytem'.*did you mean \"filesystem\"") as raised:
        standard_registry().connectors.get("filesytem")
    assert raised.value.code == "E1501"


def test_a_name_is_taken_once() -> None:
    registry = standard_registry()
    with pytest.raises(ValueError, match="registered twice"):
        registry.connectors.announce("print", "somewhere:ELSE")


def test_what_is_there_is_not_absent() -> None:
    assert not ABSENT_CONNECTORS & set(CONNECTORS)
