-- The tables and views of the binder's specs.
CREATE TABLE bid (
  auction INT, bidder STRING NOT NULL, price DECIMAL(10, 2), qty INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
);
CREATE TABLE t (
  a INT, b STRING, r ROW<x INT, y ROW<z INT>>, m MAP<STRING, INT>, arr ARRAY<ROW<p INT, q STRING>>, tags ARRAY<STRING>,
  pt AS PROCTIME(), twice AS a * 2
);
CREATE TABLE u (a BIGINT, c DATE, d DOUBLE, PRIMARY KEY (a) NOT ENFORCED);
CREATE TABLE rates (cur STRING, rate DECIMAL(10, 4), rt TIMESTAMP(3), WATERMARK FOR rt AS rt, PRIMARY KEY (cur) NOT ENFORCED);
CREATE TABLE dim (id INT, name STRING) WITH ('connector' = 'lookup');
CREATE TABLE clicks (
  usr STRING, at_ms BIGINT METADATA FROM 'timestamp' VIRTUAL, url STRING, part INT METADATA,
  ts AS CAST(CAST('2024-01-01 00:00:00' AS TIMESTAMP(3)) AS TIMESTAMP_LTZ(3)), WATERMARK FOR ts AS ts
);
CREATE TABLE target (k INT NOT NULL, v STRING, w BIGINT, n AS w + 1, off BIGINT METADATA VIRTUAL) WITH ('connector' = 'sink');
CREATE VIEW totals (who, n) AS SELECT bidder, COUNT(*) FROM bid GROUP BY bidder;
CREATE VIEW broken AS SELECT nope FROM bid;
CREATE VIEW shifted AS SELECT ts + INTERVAL '1' HOUR AS ts FROM bid;
