-- Fills the tables of schema.sql from Parquet files; README.md tells how to make them.
-- BEGIN EPOCH ... END EPOCH: eight inserts, one change, so that no view is ever computed from half of the tables.

CREATE TABLE region_file   WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tpch/data/region.parquet',   'format' = 'parquet')
  LIKE region   (EXCLUDING CONSTRAINTS);
CREATE TABLE nation_file   WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tpch/data/nation.parquet',   'format' = 'parquet')
  LIKE nation   (EXCLUDING CONSTRAINTS);
CREATE TABLE supplier_file WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tpch/data/supplier.parquet', 'format' = 'parquet')
  LIKE supplier (EXCLUDING CONSTRAINTS);
CREATE TABLE customer_file WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tpch/data/customer.parquet', 'format' = 'parquet')
  LIKE customer (EXCLUDING CONSTRAINTS);
CREATE TABLE part_file     WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tpch/data/part.parquet',     'format' = 'parquet')
  LIKE part     (EXCLUDING CONSTRAINTS);
CREATE TABLE partsupp_file WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tpch/data/partsupp.parquet', 'format' = 'parquet')
  LIKE partsupp (EXCLUDING CONSTRAINTS);
CREATE TABLE orders_file   WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tpch/data/orders.parquet',   'format' = 'parquet')
  LIKE orders   (EXCLUDING CONSTRAINTS);
CREATE TABLE lineitem_file WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tpch/data/lineitem.parquet', 'format' = 'parquet')
  LIKE lineitem (EXCLUDING CONSTRAINTS);

BEGIN EPOCH;
INSERT INTO region   SELECT * FROM region_file;
INSERT INTO nation   SELECT * FROM nation_file;
INSERT INTO supplier SELECT * FROM supplier_file;
INSERT INTO customer SELECT * FROM customer_file;
INSERT INTO part     SELECT * FROM part_file;
INSERT INTO partsupp SELECT * FROM partsupp_file;
INSERT INTO orders   SELECT * FROM orders_file;
INSERT INTO lineitem SELECT * FROM lineitem_file;
END EPOCH;
