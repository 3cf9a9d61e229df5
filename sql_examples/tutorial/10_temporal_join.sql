-- 10. A temporal join: the value that held at the time.
--
-- Orders come in three currencies, and rates change during the day. What was an order worth in euros when it was
-- made?

CREATE TABLE orders (
  order_id INT, customer STRING, city STRING, drink STRING, price DECIMAL(8, 2), currency STRING, ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/orders.csv', 'format' = 'csv', 'csv.header' = 'true');

-- A table with a primary key and event time is versioned: a row holds from its time until the next row of its key.
CREATE TABLE rates (
  currency STRING, euros DECIMAL(10, 4), valid_from TIMESTAMP(3),
  WATERMARK FOR valid_from AS valid_from,
  PRIMARY KEY (currency) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/rates.csv', 'format' = 'csv', 'csv.header' = 'true');

-- FOR SYSTEM_TIME AS OF takes the version at the order's time. A join on the currency alone would pair each order
-- with every rate there ever was, and joining the newest rate would change the worth of old orders.
CREATE VIEW worth AS
SELECT o.order_id, o.ordered_at, o.price, o.currency, r.euros AS rate, CAST(o.price * r.euros AS DECIMAL(10, 2)) AS euros
FROM orders AS o
JOIN rates FOR SYSTEM_TIME AS OF o.ordered_at AS r ON o.currency = r.currency;

SELECT * FROM worth ORDER BY order_id;

-- The answer is final for each order, so it can be counted in windows: what each ten minutes brought, in euros.
SELECT window_start, COUNT(*) AS orders, SUM(euros) AS euros
FROM TABLE(TUMBLE(TABLE worth, DESCRIPTOR(ordered_at), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end
ORDER BY window_start;
