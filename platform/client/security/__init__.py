"""How a client proves who it is and whom it speaks to: TLS and SASL, from one properties file with Kafka's setting names.

`client_security` is what a `Cluster` takes, `chosen` finds it in the environment. Below them: `settings` (the names, and what
may not stand together), `properties` and `jaas` (the file's syntax), `secret_value`, `tls_files` (contexts), `mechanisms`,
`scram` and `oauth_tokens` (what is said to the broker). Knows no request: `connection.authentication` speaks it.
"""
