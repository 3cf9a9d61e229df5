-- Flights out of New York in January 2013, as a stream with event time.
--
--   sqlengine run sql_examples/flights/delays.sql          (from the folder that holds sql_examples)
--
-- Three answers are kept up to date while the flights come in: how each airline did in each hour, which three destinations were the worst of each day, and
-- what the wind was like when flights left very late. The changes are shown as they happen, the final tables at the end.

-- The flights in the order in which they left. `departure` is when a flight was scheduled to leave (UTC): its event time. Flights leave out of order,
-- cancelled ones are filed hours later: an answer for an hour is final when the stream is a day ahead of it.
CREATE TABLE flights (
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay INT, arr_delay INT, `minute` INT, time_hour STRING,
  departure AS CAST(SUBSTRING(time_hour FROM 1 FOR 19) AS TIMESTAMP(3)) + `minute` * INTERVAL '1' MINUTE,
  WATERMARK FOR departure AS departure - INTERVAL '1' DAY
) WITH (
  'connector' = 'filesystem', 'path' = 'sql_examples/flights/data/flights_2013_01.csv', 'format' = 'csv', 'csv.header' = 'true', 'csv.null-literal' = ''
);

-- The names of the airlines: sixteen rows in a table in memory.
CREATE TABLE airline_file (carrier STRING, name STRING)
WITH ('connector' = 'filesystem', 'path' = 'sql_examples/flights/data/airlines.csv', 'format' = 'csv', 'csv.header' = 'true');

CREATE TABLE airlines (carrier STRING PRIMARY KEY NOT ENFORCED, name STRING);
INSERT INTO airlines SELECT carrier, name FROM airline_file;

-- The weather at the three airports, hour by hour. Its primary key and event time make it a versioned table: at any moment each airport has one report that holds.
CREATE TABLE weather (
  origin STRING, temp DOUBLE, wind_speed DOUBLE, visib DOUBLE, time_hour STRING,
  observed AS CAST(SUBSTRING(time_hour FROM 1 FOR 19) AS TIMESTAMP(3)),
  WATERMARK FOR observed AS observed,
  PRIMARY KEY (origin) NOT ENFORCED
) WITH (
  'connector' = 'filesystem', 'path' = 'sql_examples/flights/data/weather_2013_01.csv', 'format' = 'csv', 'csv.header' = 'true', 'csv.null-literal' = ''
);

-- 1. Per airline and hour: the number of flights and the average delay. A window closes when the watermark passes its end; then its row is final.
CREATE MATERIALIZED VIEW airline_hours AS
SELECT a.name AS airline, h.hour_start, h.flights, h.average_delay
FROM (
  SELECT carrier, window_start AS hour_start, COUNT(*) AS flights, AVG(CAST(dep_delay AS DOUBLE)) AS average_delay
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(departure), INTERVAL '1' HOUR))
  GROUP BY carrier, window_start, window_end
) AS h
JOIN airlines AS a ON h.carrier = a.carrier;

-- 2. The three worst destinations of each day, by average delay on arrival, among those with at least ten flights. This one changes while a day goes on.
CREATE VIEW daily_ranking AS
SELECT `day`, place, dest, flights, average_delay
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY `day` ORDER BY average_delay DESC, dest) AS place
  FROM (
    SELECT CAST(departure AS DATE) AS `day`, dest, COUNT(arr_delay) AS flights, ROUND(AVG(CAST(arr_delay AS DOUBLE)), 1) AS average_delay
    FROM flights
    WHERE arr_delay IS NOT NULL
    GROUP BY CAST(departure AS DATE), dest
  ) AS per_day
  WHERE flights >= 10
) AS ranked
WHERE place <= 3;

CREATE MATERIALIZED VIEW worst_destinations AS SELECT * FROM daily_ranking;

-- 3. Flights that left more than five hours late, with the weather that held at their airport when they should have left.
CREATE MATERIALIZED VIEW very_late AS
SELECT f.departure, a.name AS airline, f.flight, f.origin, f.dest, f.dep_delay, w.temp, w.wind_speed, w.visib
FROM (SELECT * FROM flights WHERE dep_delay > 300) AS f
LEFT JOIN weather FOR SYSTEM_TIME AS OF f.departure AS w ON f.origin = w.origin
JOIN airlines AS a ON f.carrier = a.carrier;

-- Watch the second answer change: the first place of the first week, in steps of 250 flights. +I is a new row, -U and +U its old and new image, -D a row that is no more.
CREATE TABLE board (`day` DATE, place BIGINT, dest STRING, flights BIGINT, average_delay DOUBLE) WITH ('connector' = 'print');
SET 'sqlengine.epoch.max-rows' = '250';
INSERT INTO board SELECT * FROM daily_ranking WHERE place = 1 AND `day` <= DATE '2013-01-07';
RESET 'sqlengine.epoch.max-rows';

-- The final tables: take all input, then ask.
FLUSH;

SELECT * FROM airline_hours ORDER BY average_delay DESC LIMIT 10;
SELECT * FROM worst_destinations ORDER BY `day`, place LIMIT 15;
SELECT * FROM very_late ORDER BY dep_delay DESC LIMIT 10;
