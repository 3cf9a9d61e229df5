"""Formats whose schemas are in a schema registry with Confluent's interface."""
