"""Tables of MySQL and MariaDB: read, written, looked up."""
