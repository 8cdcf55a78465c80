"""How much a client may ask of this broker: limits by user and client id, and what each client has used of them."""
