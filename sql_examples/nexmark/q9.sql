-- Nexmark query 9: winning bids. The highest bid of each auction while it ran, the earlier of equal ones: top-1 over an updating join.

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

CREATE TABLE nexmark_q9 (
  id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3), expires TIMESTAMP(3),
  seller BIGINT, category BIGINT, extra STRING, auction BIGINT, bidder BIGINT, price BIGINT, bid_dateTime TIMESTAMP(3), bid_extra STRING
);

INSERT INTO nexmark_q9
SELECT
  id, itemName, description, initialBid, reserve, `dateTime`, expires, seller, category, extra, auction, bidder, price, bid_dateTime,
  bid_extra
FROM (
  SELECT a.*, b.auction, b.bidder, b.price, b.`dateTime` AS bid_dateTime, b.extra AS bid_extra,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`dateTime` ASC) AS rownum
  FROM auction a, bid b
  WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
)
WHERE rownum <= 1;

SELECT id, itemName, `dateTime`, expires, bidder, price, bid_dateTime FROM nexmark_q9 ORDER BY id;
