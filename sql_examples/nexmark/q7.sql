-- Nexmark query 7: highest bid. The highest bids of every ten seconds: an aggregate of a window joined back to the bids.

-- The events of an auction site, all in one stream: 1 person, 3 auctions and 46 bids in 50; ten events a second.
CREATE TABLE nexmark (
  event_type INT,
  person ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, `dateTime` TIMESTAMP(3), extra STRING>,
  auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3),
    expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING>,
  `dateTime` AS CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark', 'events.num' = '500', 'first-event.rate' = '10', 'next-event.rate' = '10', 'seed' = '3');

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`, bid.extra
FROM nexmark WHERE event_type = 2;

CREATE TABLE nexmark_q7 (auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING);

INSERT INTO nexmark_q7
SELECT b.auction, b.bidder, b.price, b.`dateTime`, b.extra
FROM bid b
JOIN (
  SELECT MAX(price) AS maxprice, window_end AS `dateTime`
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) b1
ON b.price = b1.maxprice
WHERE b.`dateTime` BETWEEN b1.`dateTime` - INTERVAL '10' SECOND AND b1.`dateTime`;

SELECT auction, bidder, price, `dateTime` FROM nexmark_q7 ORDER BY `dateTime`;
