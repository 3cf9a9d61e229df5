-- Payments, messages of Avro in Kafka whose schema is in a registry, are a view that is always up to date: anybody may ask it.
CREATE TABLE payments (at TIMESTAMP(3), shop STRING, cents BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'payments', 'properties.bootstrap.servers' = '${env:KAFKA}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'avro-confluent', 'avro-confluent.url' = '${env:REGISTRY}');

CREATE MATERIALIZED VIEW dashboard AS
  SELECT shop, COUNT(*) AS payments, SUM(cents) AS cents, MAX(at) AS newest FROM payments GROUP BY shop;
