"""How Airflow's processes open their SQLite metadata database. Named in their environment (`SQL_ALCHEMY_CONNECT_ARGS`)."""

CONNECT_ARGS = {"timeout": 60.0}
"""Seconds to wait for another writer. SQLite's own 5 are too few for three Airflow processes on two busy cores: requests
then fail with 'database is locked'."""
