-- Every change of a table of PostgreSQL is in a table of Iceberg a second later, exactly once.
SET 'pipeline.name' = 'orders to the lake';
SET 'execution.checkpointing.dir' = 'state';
SET 'execution.checkpointing.interval' = '1 s';

CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'postgres-cdc', 'url' = '${env:SHOP_URL}', 'username' = 'postgres', 'password' = '${env:SHOP_PASSWORD}',
  'schema-name' = 'public', 'table-name' = 'orders', 'slot.name' = 'orders_to_the_lake');

CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = 'lake');
CREATE DATABASE IF NOT EXISTS lake.shop;
CREATE TABLE IF NOT EXISTS lake.shop.orders (id BIGINT, customer STRING, amount DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED);

INSERT INTO lake.shop.orders SELECT id, customer, amount FROM orders;
