"""The supervisor behind `make up`: the process table, ordered start and stop, readiness, restart, logs, drills."""
