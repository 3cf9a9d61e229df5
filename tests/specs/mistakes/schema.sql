CREATE TABLE orders (id INT, customer STRING, amount DECIMAL(10, 2), placed TIMESTAMP(3), tags ARRAY<STRING>, address ROW<street STRING, town STRING>, WATERMARK FOR placed AS placed - INTERVAL '5' SECOND);
CREATE TABLE payments (order_id INT, paid TIMESTAMP(3), sum_paid DECIMAL(10, 2), WATERMARK FOR paid AS paid);
CREATE TABLE customers (name STRING PRIMARY KEY NOT ENFORCED, town STRING, since DATE);
CREATE TABLE clicks (page STRING, at TIMESTAMP(3));
CREATE TABLE per_customer (customer STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/tmp/out', 'format' = 'json');
CREATE TABLE names (name STRING) WITH ('connector' = 'print');
