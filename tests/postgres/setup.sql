CREATE TABLE emp (id int PRIMARY KEY, name text NOT NULL, dept text, salary numeric(10, 2), hired date, boss int);
INSERT INTO emp VALUES
  (1, 'Ann', 'dev', 5000.50, date '2015-03-01', NULL), (2, 'Bob', 'dev', 4200.00, date '2018-07-15', 1),
  (3, 'Cid', 'ops', 3900.25, date '2020-01-31', 1), (4, 'Dora', 'ops', NULL, date '2021-11-11', 3),
  (5, 'Eve', NULL, 6100.00, NULL, 1), (6, 'Finn', 'dev', 4200.00, date '2024-02-29', 2);
CREATE TABLE item (id int PRIMARY KEY, tags text[], doc jsonb, price double precision, at timestamp, big bigint, ok boolean);
INSERT INTO item VALUES
  (1, ARRAY['a', 'b'], '{"a": 1, "b": {"c": [10, 20, 30], "d": null}, "s": "x"}'::jsonb, 1.5, timestamp '2024-01-15 10:20:30.25', 10, true),
  (2, ARRAY['b'], '{"a": 2, "tags": ["x", "y"], "n": 12.50}'::jsonb, 2.5, timestamp '2024-02-29 23:59:59', 9000000000, false),
  (3, ARRAY['c', NULL], '[1, "two", true, null, {"k": "v"}]'::jsonb, -0.25, timestamp '1999-12-31 00:00:00', -7, NULL),
  (4, NULL, NULL, NULL, NULL, NULL, true),
  (5, ARRAY['a', 'c', 'd'], '"text"'::jsonb, 100, timestamp '2024-03-10 12:00:00', 0, false);
