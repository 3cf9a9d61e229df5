-- Nexmark query 6: average selling price by seller, over the last ten auctions that closed. Flink cannot run it (there, OVER refuses input that
-- is updated); here the average follows when a higher bid changes the winner of an auction. (CAST: once rows
-- are updated, their time is a value like any other, no longer the time of the stream.)

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

CREATE TABLE nexmark_q6 (seller BIGINT, avg_price BIGINT);

INSERT INTO nexmark_q6
SELECT q.seller, AVG(q.price) OVER (PARTITION BY q.seller ORDER BY q.sold ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
FROM (
  SELECT seller, price, CAST(`dateTime` AS TIMESTAMP(3)) AS sold
  FROM (
    SELECT a.id, a.seller, b.price, b.`dateTime`, ROW_NUMBER() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC) AS rownum
    FROM auction AS a, bid AS b
    WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
  )
  WHERE rownum <= 1
) AS q;

SELECT * FROM nexmark_q6 ORDER BY seller, avg_price;
