"""The REST API of Flink's SQL Gateway, versions 1 to 4, so that Flink's SQL client and its JDBC driver connect.

Source: Flink 2.3, "SQL Gateway", "REST Endpoint", and what its own clients send.
"""
