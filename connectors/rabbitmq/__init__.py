"""Queues and streams of RabbitMQ."""
