-- Of equal prices, the bid that came first has the better rank.
SELECT auction, bidder, price, channel, url, dateTime, extra, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, dateTime) AS rank_number
FROM bid
QUALIFY rank_number <= 10
