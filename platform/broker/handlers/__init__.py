"""One file an API. A handler takes a request's body and returns its answer's; the router puts header and length around it."""
