-- Order priority checking: orders of a quarter with at least one line that came later than promised.
CREATE MATERIALIZED VIEW q4 AS
SELECT o_orderpriority, COUNT(*) AS order_count
FROM orders
WHERE o_orderdate >= DATE '1993-07-01'
  AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
  AND EXISTS (
    SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate
  )
GROUP BY o_orderpriority;

SELECT * FROM q4 ORDER BY o_orderpriority;
