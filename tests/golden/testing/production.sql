-- A job as it runs in production: its connectors are not here, and a test does not need them.
CREATE TABLE orders (
  id INT, customer INT, amount DECIMAL(8, 2), tags ARRAY<STRING>, payload BYTES,
  ts TIMESTAMP_LTZ(3), part INT METADATA FROM 'partition' VIRTUAL, proc AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'json', 'scan.watermark.idle-timeout' = '30 s');

CREATE TABLE web_orders WITH ('topic' = 'web') LIKE orders;

CREATE TABLE customers (id INT PRIMARY KEY NOT ENFORCED, name STRING)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://db/shop', 'table-name' = 'customers');

CREATE TABLE enriched (id INT, name STRING, amount DECIMAL(8, 2), seen TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'json');

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO enriched
  SELECT o.id, c.name, o.amount, CAST(CURRENT_TIMESTAMP AS TIMESTAMP(3))
  FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proc AS c ON o.customer = c.id;
  INSERT INTO enriched SELECT id, 'web', amount, CAST(NULL AS TIMESTAMP(3)) FROM web_orders;
END;

SELECT * FROM enriched;
