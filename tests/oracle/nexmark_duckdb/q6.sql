WITH winners AS (
  SELECT a.seller, b.price, b.dateTime AS sold
  FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.dateTime) = 1
)
SELECT seller, CAST(trunc(SUM(price) OVER last_ten / COUNT(price) OVER last_ten) AS BIGINT)
FROM winners
WINDOW last_ten AS (PARTITION BY seller ORDER BY sold ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
