"""The supervisor behind `make up`: ZooKeeper's command line, the process table, ordered start and stop, readiness, restart, logs."""
