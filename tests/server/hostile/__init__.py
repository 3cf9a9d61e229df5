"""Clients that send what no client should, to each port of a server: lengths, types, orders, halves, and slowly."""
