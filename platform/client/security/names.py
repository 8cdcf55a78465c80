"""The settings of a client configuration: Kafka's own names and librdkafka's for the same things. Values only.

`ssl.cafile`, `ssl.certfile` and `ssl.keyfile` are the names of Python's clients.
"""

from collections.abc import Mapping

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

NAMES: Mapping[str, tuple[str, ...]] = {
    "bootstrap.servers": ("metadata.broker.list",),
    "security.protocol": (),
    "sasl.mechanism": ("sasl.mechanisms",),
    "sasl.username": (),
    "sasl.password": (),
    "sasl.jaas.config": (),
    "sasl.login.callback.handler.class": (),
    "sasl.oauthbearer.method": (),
    "sasl.oauthbearer.token.endpoint.url": (),
    "sasl.oauthbearer.client.id": ("sasl.oauthbearer.client.credentials.client.id",),
    "sasl.oauthbearer.client.secret": ("sasl.oauthbearer.client.credentials.client.secret",),
    "sasl.oauthbearer.scope": (),
    "sasl.oauthbearer.extensions": (),
    "sasl.oauthbearer.header.urlencode": (),
    "https.ca.location": (),
    "ssl.cafile": ("ssl.ca.location", "ssl.truststore.location"),
    "ssl.ca.pem": ("ssl.truststore.certificates",),
    "ssl.truststore.type": (),
    "ssl.certfile": ("ssl.certificate.location",),
    "ssl.certificate.pem": ("ssl.keystore.certificate.chain",),
    "ssl.keyfile": ("ssl.key.location",),
    "ssl.key.pem": ("ssl.keystore.key",),
    "ssl.keystore.location": (),
    "ssl.keystore.type": (),
    "ssl.key.password": (),
    "ssl.endpoint.identification.algorithm": (),
}
"""Each setting, and the other names that mean the same."""

CANONICAL: Mapping[str, str] = {one: name for name, others in NAMES.items() for one in (name, *others)}

IGNORED_PREFIX = "config.providers"
"""Kafka wants its providers of `${env:…}`, `${file:…}` and `${dir:…}` named; here they are always there."""

INSTEAD: Mapping[str, str] = {
    "ssl.truststore.password": "PEM files have none: leave it out (a JKS or PKCS12 store is turned into PEM by `keytool "
    "-exportcert -rfc`)",
    "ssl.keystore.password": "PEM files have none: give ssl.key.password if the key is encrypted",
    "enable.ssl.certificate.verification": "certificates are always verified: give ssl.cafile the CA that signed the broker's",
    "ssl.check.hostname": "write ssl.endpoint.identification.algorithm=none where the name must not be checked",
    "sasl.kerberos.service.name": f"Kerberos is not spoken: sasl.mechanism is one of {', '.join(MECHANISMS)}",
    "sasl.plain.username": "write sasl.username",
    "sasl.plain.password": "write sasl.password",
}
"""Settings that are known elsewhere and refused here, with what to do."""
