"""The connector `blackhole`: takes everything and keeps nothing, for measurements."""
