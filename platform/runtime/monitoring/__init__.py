"""What each process shows of itself: `/metrics` for Prometheus, `/healthz`, `/readyz`; and the small HTTP server for them."""
