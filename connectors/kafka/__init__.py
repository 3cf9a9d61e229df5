"""Topics of Kafka as tables, by librdkafka's Python client."""
