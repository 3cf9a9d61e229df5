"""A database that clients of other systems reach over the network. Imports everything below; nothing imports it but the
command line."""
