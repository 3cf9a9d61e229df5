"""What servers over HTTP share: the port, who may ask, sessions of clients and the statements that they send."""
