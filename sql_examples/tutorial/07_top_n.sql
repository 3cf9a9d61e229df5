-- 7. Top-n: the two best-selling drinks of each shop.
--
-- ROW_NUMBER numbers the rows of each city, best first; the condition outside keeps the first two. The engine sees
-- that the two belong together and keeps the order of each city up to date, instead of numbering all rows again and
-- again.

CREATE TABLE orders (
  order_id INT, customer STRING, city STRING, drink STRING, price DECIMAL(8, 2), currency STRING, ordered_at TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/orders.csv', 'format' = 'csv', 'csv.header' = 'true');

CREATE VIEW sales AS SELECT city, drink, COUNT(*) AS orders FROM orders GROUP BY city, drink;

SELECT city, place, drink, orders
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY orders DESC, drink) AS place
  FROM sales
)
WHERE place <= 2
ORDER BY city, place;

-- EXPLAIN shows how: look for the operator that keeps the ranks.
EXPLAIN SELECT city, place, drink FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY orders DESC, drink) AS place FROM sales
) WHERE place <= 2;
