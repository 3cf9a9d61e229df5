"""How many rows operators give and keep, estimated from what is known of their inputs."""
