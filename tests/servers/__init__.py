"""Real servers for the tests of connectors."""
