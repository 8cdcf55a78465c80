"""A broker: one process, one loop thread, the Kafka wire protocol over byte-addressed logs. Built by `app`, entered through
the CLI.
"""
