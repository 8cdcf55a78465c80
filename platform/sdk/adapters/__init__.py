"""Ways to log without calling `log`, each on top of one `EventLogger`.

`log_records`: a `logging.Handler`. `asgi`, `wsgi`: one event per HTTP request. `complaints`: what goes wrong in a place that must
never fail the application.
"""
