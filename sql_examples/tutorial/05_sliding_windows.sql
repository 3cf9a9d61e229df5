-- 5. Windows that overlap: the last ten minutes, every five minutes; and the hour so far.
--
-- With HOP a row belongs to several windows. The engine counts each row once, in a pane of five minutes, and adds
-- panes up.

CREATE TABLE orders (
  order_id INT, customer STRING, city STRING, drink STRING, price DECIMAL(8, 2), currency STRING, ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/orders.csv', 'format' = 'csv', 'csv.header' = 'true');

SELECT window_start, window_end, city, COUNT(*) AS orders
FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, city
ORDER BY window_start, city;

-- CUMULATE begins anew each hour and shows what has come so far, every ten minutes.
SELECT window_start, window_end, COUNT(*) AS orders
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '10' MINUTES, INTERVAL '1' HOUR))
GROUP BY window_start, window_end
ORDER BY window_end;

-- SESSION has no fixed length: a customer's session ends after ten minutes without an order.
SELECT customer, window_start, window_end, COUNT(*) AS orders
FROM TABLE(SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(ordered_at), INTERVAL '10' MINUTES))
GROUP BY customer, window_start, window_end
ORDER BY customer, window_start;
