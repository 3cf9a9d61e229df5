-- 3. A materialized view: the answer is kept, and follows every change of its tables.
--
-- A table without WITH lives in the engine's memory. It takes INSERT, UPDATE and DELETE, as in any database.
CREATE TABLE menu (drink STRING, price DECIMAL(8, 2), PRIMARY KEY (drink) NOT ENFORCED);
CREATE TABLE sold (order_id INT, drink STRING, PRIMARY KEY (order_id) NOT ENFORCED);

-- The view joins the tables and adds up. It is computed once, now; from then on each statement changes only what it
-- has to.
CREATE MATERIALIZED VIEW turnover AS
SELECT m.drink, COUNT(*) AS orders, SUM(m.price) AS total
FROM sold AS s JOIN menu AS m ON s.drink = m.drink
GROUP BY m.drink;

INSERT INTO menu VALUES ('espresso', 2.80), ('latte', 4.20), ('filter', 3.00);
INSERT INTO sold VALUES (1, 'latte'), (2, 'espresso'), (3, 'latte'), (4, 'tea');

SELECT * FROM turnover ORDER BY drink;

-- A new price: the total of the latte changes, nothing else is computed again.
UPDATE menu SET price = 4.50 WHERE drink = 'latte';
-- A cancelled order, and a drink that comes onto the menu after it was sold.
DELETE FROM sold WHERE order_id = 2;
INSERT INTO menu VALUES ('tea', 2.50);

SELECT * FROM turnover ORDER BY drink;

-- Each statement is an epoch of its own. To change several tables at once, so that no reader sees one change without
-- the other, hold them together:
BEGIN EPOCH;
DELETE FROM menu WHERE drink = 'tea';
UPDATE sold SET drink = 'filter' WHERE drink = 'tea';
END EPOCH;

SELECT * FROM turnover ORDER BY drink;
