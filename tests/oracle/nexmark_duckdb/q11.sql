-- A session begins with a bid that comes more than ten seconds after the bidder's last one.
WITH marked AS (
  SELECT bidder, dateTime, dateTime - LAG(dateTime) OVER by_bidder <= INTERVAL '10 seconds' IS NOT TRUE AS begins
  FROM bid
  WINDOW by_bidder AS (PARTITION BY bidder ORDER BY dateTime)
), numbered AS (
  SELECT bidder, dateTime, COUNT(*) FILTER (WHERE begins) OVER (PARTITION BY bidder ORDER BY dateTime) AS session
  FROM marked
)
SELECT bidder, COUNT(*), MIN(dateTime), MAX(dateTime) + INTERVAL '10 seconds'
FROM numbered
GROUP BY bidder, session
