"""Bytes of the Kafka protocol and nothing else: pure, no socket, file, clock, random, thread or log.

`record_batch` the batches on the path · `produce`, `fetch` the two hot APIs by hand · `control` all other APIs through kio ·
`compression`, `crc32c`, `schema_id`, `errors` what their names say.
"""
