"""The Spark runtime: the operators of `runtime/operators` in the tasks of a Spark job, an epoch a job."""
