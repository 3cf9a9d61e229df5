"""The catalog `confluent-registry`: topics of Kafka as tables, with the columns of their newest schemas.

    CREATE CATALOG events WITH ('type' = 'confluent-registry', 'url' = 'http://registry:8081',
      'properties.bootstrap.servers' = 'broker:9092')

A topic is there when the registry has a schema of its values: the subject `TOPIC-value`.
"""

from __future__ import annotations

from connectors.formats.avro_schema import BadSchema, parse_schema
from connectors.formats.avro_types import columns_of
from connectors.options import TableOptions
from connectors.schema_registry.client import NoSchema, RegisteredSchema, RegistryClient
from connectors.schema_registry.frames import Undecodable
from connectors.schema_registry.json_schema import columns_of_json_schema
from connectors.schema_registry.options import PROPERTIES, REGISTRY_OPTIONS, SUBJECT, read_address
from connectors.schema_registry.protobuf import columns_of_registered
from runtime.core.errors import FormatError, UnsupportedError
from runtime.core.options import text_option
from runtime.core.schema import Schema
from runtime.spi.catalog import CatalogFactory, CatalogRequest, ForeignTable

__all__ = ["CONFLUENT_REGISTRY", "RegistryCatalog"]

_VALUE = "-value"
_DATABASE = "topics"
SERVERS = text_option("properties.bootstrap.servers", "", "the brokers for the first connection, such as 'broker:9092'")
STARTUP = text_option("scan.startup.mode", "earliest-offset", "where reading of topics begins")
BOUNDED = text_option("scan.bounded.mode", "unbounded", "where it ends")
_OPTIONS = (*(o for o in REGISTRY_OPTIONS if o is not SUBJECT), SERVERS, STARTUP, BOUNDED)
_FORMATS = {"AVRO": "avro-confluent", "JSON": "json-confluent", "PROTOBUF": "protobuf-confluent"}


class RegistryCatalog:
    """Topics by the subjects of a registry.

    Args:
        given: the options of its tables, but for the format's; `of_format`: those.
    """

    default_database = _DATABASE

    def __init__(self, client: RegistryClient, given: dict[str, str], of_format: dict[str, str]) -> None:
        self._client = client
        self._given = given
        self._of_format = of_format
        self._known: dict[str, tuple[int, Schema]] = {}
        self._held: dict[str, bool] = {}

    def databases(self) -> list[str]:
        """There is one, `topics`."""
        return [_DATABASE]

    def tables(self, database: str) -> list[str]:
        """The topics whose values have a schema that columns hold. Each schema is asked for, once."""
        topics = [name.removesuffix(_VALUE) for name in self._client.subjects() if name.endswith(_VALUE)]
        return [topic for topic in topics if self._holds(topic)]

    def _holds(self, topic: str) -> bool:
        if topic not in self._held:
            try:
                self.table(_DATABASE, topic)
                self._held[topic] = True
            except (FormatError, UnsupportedError):
                self._held[topic] = False
        return self._held[topic]

    def table(self, database: str, name: str) -> ForeignTable:
        """A topic; UnsupportedError E1643 for a schema of another kind, E1616 for one that no columns hold."""
        try:
            found = self._client.latest(name + _VALUE)
        except NoSchema as error:
            raise FormatError(f"topic {name} has no schema: {error}", code="E3230") from error
        if found.kind not in _FORMATS:
            raise UnsupportedError(
                f"the schema of topic {name} is one of {found.kind}",
                code="E1643",
                hint="declare a table with its columns",
            )
        format_ = _FORMATS[found.kind]
        of_format = {f"{format_}.{key}": value for key, value in self._of_format.items()}
        options = {**self._given, "topic": name, "format": format_, **of_format}
        return ForeignTable(self._columns(name, found), options)

    def _columns(self, name: str, found: RegisteredSchema) -> Schema:
        known = self._known.get(name)
        if known is not None and known[0] == found.id:
            return known[1]
        try:
            if found.kind == "JSON":
                columns = columns_of_json_schema(found.text)
            elif found.kind == "PROTOBUF":
                columns = columns_of_registered(found)
            else:
                columns = columns_of(parse_schema(found.text, [text for _, text in found.references]))
        except BadSchema as error:
            raise FormatError(f"the schema of topic {name} is none of Avro: {error}", code="E3230") from error
        except Undecodable as error:
            raise FormatError(f"the schema of topic {name} cannot be used: {error}", code="E3230") from error
        self._known[name] = found.id, columns
        return columns


def _open(request: CatalogRequest) -> RegistryCatalog:
    options = {k: v for k, v in request.options.items() if k != "type"}
    where = "catalog type 'confluent-registry'"
    read = TableOptions(options, where, _OPTIONS, (PROPERTIES,))
    read.required(SERVERS)
    client = RegistryClient(read_address(read, {}, where))
    ours = {o.key for o in REGISTRY_OPTIONS}
    given = {k: v for k, v in options.items() if k not in ours}
    given |= {"connector": "kafka", STARTUP.key: read.get(STARTUP)}
    catalog = RegistryCatalog(client, given, {k: v for k, v in options.items() if k in ours})
    client.subjects()
    return catalog


CONFLUENT_REGISTRY = CatalogFactory(
    name="confluent-registry",
    document="topics of Kafka, whose schemas are in a registry",
    open=_open,
    options=_OPTIONS,
)
