-- 4. Event time and windows: answers that are final.
--
-- Orders per five minutes. Which five minutes? Those in which the order was made, not those in which the row arrived:
-- rows can be late. Order 6 comes after order 5 though it was made before it. WATERMARK says how long to wait: when a
-- row of 08:06 has come, no row from before 08:05 is expected.

CREATE TABLE orders (
  order_id INT, customer STRING, city STRING, drink STRING, price DECIMAL(8, 2), currency STRING, ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/orders.csv', 'format' = 'csv', 'csv.header' = 'true');

-- TUMBLE puts each row into a window of five minutes. When the watermark passes the end of a window, its answer is
-- final: it comes out once, is never changed, and its state is freed. That is why this query could run for years.
SELECT window_start, window_end, COUNT(*) AS orders, COUNT(DISTINCT customer) AS customers
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '5' MINUTES))
GROUP BY window_start, window_end
ORDER BY window_start;
