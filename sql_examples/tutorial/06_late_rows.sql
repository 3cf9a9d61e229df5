-- 6. Late rows: nothing is lost in silence.
--
-- Order 12 was made at 08:03, but before it came an order of 08:07. So the watermark has passed 08:05, the window from
-- 08:00 to 08:05 is closed, and its answer is out and final.

CREATE TABLE orders (
  order_id INT, customer STRING, city STRING, drink STRING, price DECIMAL(8, 2), currency STRING, ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/orders.csv', 'format' = 'csv', 'csv.header' = 'true');

-- Late is what comes in a later epoch than the one that closed its window. Four rows an epoch, so that there are
-- several.
SET 'sqlengine.epoch.max-rows' = '4';

CREATE TABLE per_window (window_start TIMESTAMP(3), orders BIGINT);

INSERT INTO per_window
SELECT window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '5' MINUTES))
GROUP BY window_start, window_end;

SELECT * FROM per_window ORDER BY window_start;

-- The sum is one less than the orders that there are, and this is the one that is missing:
SELECT SUM(orders) AS counted FROM per_window;
SELECT reason, event_time, watermark FROM system.rejected;

-- Who must count late rows can wait longer (a larger interval in WATERMARK: later answers, more state) or not use
-- windows (02: every row counts, answers change).
