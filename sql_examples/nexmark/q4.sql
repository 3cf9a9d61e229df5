-- Nexmark query 4: average price of a category. The winning bids of all auctions, averaged by category: an updating join under two aggregates.

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

CREATE VIEW auction AS
SELECT auction.id, auction.itemName, auction.description, auction.initialBid, auction.reserve, `dateTime`, auction.expires,
  auction.seller, auction.category, auction.extra
FROM nexmark WHERE event_type = 1;

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`, bid.extra
FROM nexmark WHERE event_type = 2;

CREATE TABLE nexmark_q4 (id BIGINT, final BIGINT);

INSERT INTO nexmark_q4
SELECT q.category, AVG(q.final)
FROM (
  SELECT MAX(b.price) AS final, a.category
  FROM auction a, bid b
  WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
  GROUP BY a.id, a.category
) q
GROUP BY q.category;

SELECT * FROM nexmark_q4 ORDER BY id;
