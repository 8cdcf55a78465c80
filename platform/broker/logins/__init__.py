"""Who a client is: users and their credentials, SASL mechanisms, and the state of a connection's login."""
