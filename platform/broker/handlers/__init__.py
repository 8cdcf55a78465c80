"""One file for each API. A handler takes a request and returns the body of its response; the router adds length and header."""
