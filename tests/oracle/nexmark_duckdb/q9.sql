SELECT a.id, itemName, description, initialBid, reserve, a.dateTime, expires, seller, category, a.extra, b.auction, b.bidder, b.price, b.dateTime,
  b.extra
FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) = 1
