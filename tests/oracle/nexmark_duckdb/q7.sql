SELECT b.auction, b.bidder, b.price, b.dateTime, b.extra
FROM bid b
JOIN (
  SELECT MAX(price) AS maxprice, time_bucket(INTERVAL '10 seconds', dateTime) + INTERVAL '10 seconds' AS window_end
  FROM bid
  GROUP BY window_end
) m ON b.price = m.maxprice AND b.dateTime BETWEEN m.window_end - INTERVAL '10 seconds' AND m.window_end
