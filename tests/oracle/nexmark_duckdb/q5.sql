-- A bid at t is in the windows that begin at the five even seconds up to t.
WITH counts AS (
  SELECT auction, time_bucket(INTERVAL '2 seconds', dateTime) - back.n * INTERVAL '2 seconds' AS starttime, COUNT(*) AS num
  FROM bid, range(5) AS back(n)
  GROUP BY ALL
)
SELECT auction, num
FROM counts
QUALIFY num = MAX(num) OVER (PARTITION BY starttime)
