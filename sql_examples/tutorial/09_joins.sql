-- 9. Joins of two streams: which orders were paid?

CREATE TABLE orders (
  order_id INT, customer STRING, city STRING, drink STRING, price DECIMAL(8, 2), currency STRING, ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/orders.csv', 'format' = 'csv', 'csv.header' = 'true');

CREATE TABLE payments (
  payment_id INT, order_id INT, amount DECIMAL(8, 2), paid_at TIMESTAMP(3),
  WATERMARK FOR paid_at AS paid_at - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/payments.csv', 'format' = 'csv', 'csv.header' = 'true');

-- A regular join finds each pair, whichever side comes first. It must keep all rows of both sides, for ever: a
-- payment may come next year.
SELECT o.order_id, o.customer, p.amount, p.paid_at
FROM orders AS o JOIN payments AS p ON o.order_id = p.order_id
WHERE o.city = 'London'
ORDER BY o.order_id;

-- With a bound in time the engine may forget: who pays, pays within three minutes. This is an interval join. LEFT
-- JOIN also gives the orders that were not paid, each as soon as the watermark says that it is too late, and never
-- before.
SELECT o.order_id, o.customer, o.ordered_at, p.paid_at
FROM orders AS o
LEFT JOIN payments AS p
  ON o.order_id = p.order_id
  AND p.paid_at BETWEEN o.ordered_at AND o.ordered_at + INTERVAL '3' MINUTES
ORDER BY o.order_id;
