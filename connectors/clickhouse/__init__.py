"""Tables of ClickHouse: read, written and looked up, over its interface of HTTP."""
