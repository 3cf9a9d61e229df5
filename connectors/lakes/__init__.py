"""What the connectors of lakes (Delta, Iceberg) share: sources that have versions, files that no version has yet, sinks."""
