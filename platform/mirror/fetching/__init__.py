"""How much is fetched from the source at a time, and when it is asked for."""
