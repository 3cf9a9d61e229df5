-- Important stock: the parts that make up more than a hundredth of the value of all stock in Germany.
-- (The specification divides 0.0001 by the scale factor: 0.01 is for scale 0.01.)
CREATE MATERIALIZED VIEW q11 AS
SELECT ps_partkey, SUM(ps_supplycost * ps_availqty) AS `value`
FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey
  AND s_nationkey = n_nationkey
  AND n_name = 'GERMANY'
GROUP BY ps_partkey
HAVING SUM(ps_supplycost * ps_availqty) > (
  SELECT SUM(ps_supplycost * ps_availqty) * 0.01
  FROM partsupp, supplier, nation
  WHERE ps_suppkey = s_suppkey
    AND s_nationkey = n_nationkey
    AND n_name = 'GERMANY'
);

SELECT * FROM q11 ORDER BY `value` DESC, ps_partkey;
