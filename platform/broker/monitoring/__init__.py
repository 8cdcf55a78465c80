"""What a running broker shows: metrics, health and the HTTP pages."""
