"""What every process needs: clock, logs, status, backoff, lifecycle, failpoints, the platform's names and addresses."""
