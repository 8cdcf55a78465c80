"""One segment: its file, what is known of the batches in it, and the sidecar that saves a start from reading it. Knows no log."""
