"""Clients of any Kafka-wire cluster: blocking sockets, threads, no framework.

`connection` one broker · `cluster` who leads what · `fetcher` batches and ranges · `producer` sending (over `accumulator`,
`pending`, `sender`) · `admin` making topics · `control_plane` the other questions · `errors` all that can go wrong.
"""
