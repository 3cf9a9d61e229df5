"""Read replicas: what a leader sends of all tables and views, and a server that follows it."""
