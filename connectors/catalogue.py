"""All connectors, formats, types of catalogs and providers of models that come with the engine. The one place where they are listed."""

from __future__ import annotations

from runtime.spi.registry import Registry

__all__ = ["CATALOGS", "CONNECTORS", "FORMATS", "MODELS", "standard_registry"]

CONNECTORS = {
    "blackhole": "connectors.blackhole.table:BLACKHOLE",
    "clickhouse": "connectors.clickhouse.table:CLICKHOUSE",
    "datagen": "connectors.datagen.table:DATAGEN",
    "delta": "connectors.delta.table:DELTA",
    "duckdb": "connectors.duckdb_file.table:DUCKDB",
    "elasticsearch-7": "connectors.elastic.table:ELASTICSEARCH_7",
    "filesystem": "connectors.filesystem.table:FILESYSTEM",
    "http": "connectors.http.table:HTTP",
    "iceberg": "connectors.iceberg.table:ICEBERG",
    "jdbc": "connectors.jdbc.table:JDBC",
    "kafka": "connectors.kafka.table:KAFKA",
    "kinesis": "connectors.kinesis.table:KINESIS",
    "lookup-jsonl": "connectors.lookup.table:LOOKUP_JSONL",
    "memory": "connectors.memory.refusal:MEMORY",
    "mongodb": "connectors.mongodb.table:MONGODB",
    "mongodb-cdc": "connectors.mongodb.cdc.table:MONGODB_CDC",
    "mqtt": "connectors.mqtt.table:MQTT",
    "mysql": "connectors.mysql.table:MYSQL",
    "mysql-cdc": "connectors.mysql.cdc.table:MYSQL_CDC",
    "nats": "connectors.nats.table:NATS",
    "nexmark": "connectors.nexmark.table:NEXMARK",
    "opensearch": "connectors.elastic.table:OPENSEARCH_TABLES",
    "postgres": "connectors.postgres.table:POSTGRES",
    "postgres-cdc": "connectors.postgres.cdc.table:POSTGRES_CDC",
    "print": "connectors.printing.table:PRINT",
    "python-input": "connectors.pushed.refusal:PYTHON_INPUT",
    "rabbitmq": "connectors.rabbitmq.table:RABBITMQ",
    "redis": "connectors.redis.table:REDIS",
    "socket": "connectors.live.sockets:SOCKET",
    "sqlite": "connectors.sqlite.table:SQLITE",
    "upsert-kafka": "connectors.kafka.upsert:UPSERT_KAFKA",
    "values": "connectors.values.table:VALUES",
    "webhook": "connectors.webhook.table:WEBHOOK",
    "websocket": "connectors.live.websockets:WEBSOCKET",
}
FORMATS = {
    "avro": "connectors.formats.avro:AVRO",
    "avro-confluent": "connectors.schema_registry.avro:AVRO_CONFLUENT",
    "canal-json": "connectors.formats.canal:CANAL_JSON",
    "csv": "connectors.formats.csv:CSV",
    "debezium-avro-confluent": "connectors.schema_registry.avro:DEBEZIUM_AVRO_CONFLUENT",
    "debezium-json": "connectors.formats.debezium:DEBEZIUM_JSON",
    "json": "connectors.formats.json:JSON",
    "json-confluent": "connectors.schema_registry.json:JSON_CONFLUENT",
    "maxwell-json": "connectors.formats.maxwell:MAXWELL_JSON",
    "ogg-json": "connectors.formats.ogg:OGG_JSON",
    "orc": "connectors.formats.orc:ORC",
    "parquet": "connectors.formats.parquet:PARQUET",
    "protobuf": "connectors.formats.protobuf:PROTOBUF",
    "protobuf-confluent": "connectors.schema_registry.protobuf:PROTOBUF_CONFLUENT",
    "raw": "connectors.formats.raw:RAW",
}
CATALOGS = {
    "clickhouse": "connectors.clickhouse.catalog:CLICKHOUSE_CATALOG",
    "confluent-registry": "connectors.schema_registry.catalog:CONFLUENT_REGISTRY",
    "delta": "connectors.delta.catalog:DELTA_CATALOG",
    "duckdb": "connectors.duckdb_file.catalog:DUCKDB_CATALOG",
    "iceberg": "connectors.iceberg.catalog:ICEBERG_CATALOG",
    "jdbc": "connectors.jdbc.catalog:JDBC_CATALOG",
    "mysql": "connectors.mysql.catalog:MYSQL_CATALOG",
    "postgres": "connectors.postgres.catalog:POSTGRES_CATALOG",
    "sqlite": "connectors.sqlite.catalog:SQLITE_CATALOG",
}
MODELS = {
    "onnx": "connectors.models.onnx_file:ONNX",
    "openai": "connectors.models.openai:OPENAI",
    "python": "connectors.models.python_function:PYTHON",
    "sklearn": "connectors.models.sklearn_file:SKLEARN",
}


def standard_registry() -> Registry:
    """A registry with all of them; third parties are found by entry point when asked for."""
    registry = Registry()
    for name, target in CONNECTORS.items():
        registry.connectors.announce(name, target)
    for name, target in FORMATS.items():
        registry.formats.announce(name, target)
    for name, target in CATALOGS.items():
        registry.catalogs.announce(name, target)
    for name, target in MODELS.items():
        registry.models.announce(name, target)
    return registry
