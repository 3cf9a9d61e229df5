-- Customer distribution: how many customers have how many orders, those without any included.
CREATE MATERIALIZED VIEW q13 AS
SELECT c_count, COUNT(*) AS custdist
FROM (
  SELECT c_custkey, COUNT(o_orderkey) AS c_count
  FROM customer LEFT OUTER JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
  GROUP BY c_custkey
) AS c_orders
GROUP BY c_count;

SELECT * FROM q13 ORDER BY custdist DESC, c_count DESC;
