-- 2. An aggregate: an answer that changes.
--
-- How much did each shop sell? After the first order there is an answer, and every further order changes it. So the
-- result is not a list of rows but a list of changes, a changelog: +I adds a row, -U takes back a row that is about
-- to change, +U brings its new form, -D removes a row. What is left when all changes are applied is the answer.

CREATE TABLE orders (
  order_id INT, customer STRING, city STRING, drink STRING, price DECIMAL(8, 2), currency STRING, ordered_at TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = 'sql_examples/tutorial/data/orders.csv', 'format' = 'csv', 'csv.header' = 'true');

-- The connector 'print' shows the changes. The engine works in epochs: it takes a number of rows and brings the
-- answer up to date. To see more steps, this file lets an epoch be four rows.
CREATE TABLE sales_changes (city STRING, orders BIGINT, turnover DECIMAL(38, 2)) WITH ('connector' = 'print');

SET 'sqlengine.epoch.max-rows' = '4';

INSERT INTO sales_changes
SELECT city, COUNT(*), SUM(price) FROM orders GROUP BY city;

-- A plain SELECT shows what is left in the end. The state behind it is one row for each city, however many orders
-- come.
SELECT city, COUNT(*) AS orders, SUM(price) AS turnover FROM orders GROUP BY city ORDER BY city;
