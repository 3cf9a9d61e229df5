"""Estimates of rows, changes and state, and the choices that rest on them."""
