"""The connector `print`: every change as a line on standard output."""
