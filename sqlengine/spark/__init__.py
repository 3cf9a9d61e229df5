"""What needs a session of Spark."""
