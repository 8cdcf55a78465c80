"""What `headrace log check`, `dump` and `repair` do with a log's folder while no broker uses it."""
