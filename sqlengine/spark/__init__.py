"""What needs a Spark session: DataFrames as tables, tables as DataFrames, and the engine as a part of the session."""

from sqlengine.spark.installation import SparkSql, install

__all__ = ["SparkSql", "install"]
