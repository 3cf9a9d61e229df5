-- Each line of the files that come into a bucket is a message in Kafka, exactly once.
SET 'pipeline.name' = 'readings to kafka';
SET 'execution.checkpointing.dir' = 'state';
SET 'execution.checkpointing.interval' = '1 s';

CREATE TABLE readings (sensor STRING, degrees DOUBLE) WITH (
  'connector' = 'filesystem', 'path' = 's3://readings/in', 'format' = 'json', 'source.monitor-interval' = '1 s',
  's3.endpoint' = '${env:S3}', 's3.region' = 'us-east-1', 's3.access-key' = '${env:S3_KEY}', 's3.secret-key' = '${env:S3_SECRET}');

CREATE TABLE warm (sensor STRING, degrees DOUBLE) WITH (
  'connector' = 'kafka', 'topic' = 'warm', 'properties.bootstrap.servers' = '${env:KAFKA}', 'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'readings-to-kafka');

INSERT INTO warm SELECT sensor, degrees FROM readings WHERE degrees > 20;
