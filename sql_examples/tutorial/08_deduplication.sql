-- 8. Deduplication: the same event twice.
--
-- Systems that must not lose anything send things again when in doubt. Each click has an id; of the rows with the
-- same id the first one counts.

CREATE TABLE clicks (
  click_id STRING, customer STRING, page STRING, clicked_at TIMESTAMP(3),
  WATERMARK FOR clicked_at AS clicked_at - INTERVAL '5' MINUTES
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/clicks.csv', 'format' = 'csv', 'csv.header' = 'true');

-- It is written as a top-1. Ascending by time keeps the first row.
CREATE VIEW distinct_clicks AS
SELECT click_id, customer, page, clicked_at
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY click_id ORDER BY clicked_at) AS n FROM clicks)
WHERE n = 1;

SELECT * FROM distinct_clicks ORDER BY click_id;

-- Descending keeps the last row: here, the page on which each customer is now.
SELECT customer, page, clicked_at
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY clicked_at DESC) AS n FROM distinct_clicks)
WHERE n = 1
ORDER BY customer;
