-- 1. A filter: the smallest query over a stream.
--
--   sqlengine run sql_examples/tutorial/01_filter.sql
--
-- A table is a name for rows that live elsewhere: WITH says where. This one reads the orders of three coffee shops
-- from a file. The file has an end, but the queries of this tutorial do not depend on that: the rows could as well
-- come from a queue that never ends.

CREATE TABLE orders (
  order_id INT, customer STRING, city STRING, drink STRING, price DECIMAL(8, 2), currency STRING, ordered_at TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/orders.csv', 'format' = 'csv', 'csv.header' = 'true');

-- Each row is looked at when it comes, and never again. Such a query keeps nothing in memory and only ever adds rows
-- to its answer.
SELECT order_id, customer, drink, price
FROM orders
WHERE city = 'Berlin' AND price > 3;
