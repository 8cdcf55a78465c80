"""The principal of a client that shows a certificate: its subject as Java writes it, through the rules of the settings.

Source: RFC 2253 as `X500Principal.getName()` in Java, whose text Kafka's rules and ACLs are written for: last part first, nine
known attributes by name, others by number with their DER in hex."""

from cryptography import x509
from cryptography.x509.oid import NameOID

from ..settings.principal_rules import PrincipalRules
from .principal import USER, Principal

_KNOWN = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
_ESCAPED = frozenset(',=+<>#;"\\')
"""Java escapes the equals sign and every hash, too."""


def principal_of(certificate: bytes, rules: PrincipalRules) -> Principal:
    """Return the principal of a certificate (DER). Raises: ValueError when no rule matches, or it has no readable subject."""
    return Principal(USER, rules.name_of(distinguished_name(x509.load_der_x509_certificate(certificate).subject)))


def distinguished_name(name: x509.Name) -> str:
    """Return the name as Java writes it."""
    return ",".join("+".join(map(_attribute, part)) for part in reversed(name.rdns))


def _attribute(one: x509.NameAttribute[str | bytes]) -> str:
    known = _KNOWN.get(one.oid)
    if known is None or isinstance(one.value, bytes):
        return f"{one.oid.dotted_string}=#{_der(one).hex()}"
    return f"{known}={_escaped(one.value)}"


def _escaped(value: str) -> str:
    inner = value.strip(" ")
    before = len(value) - len(value.lstrip(" "))
    after = len(value) - before - len(inner)
    return "\\ " * before + "".join("\\" + one if one in _ESCAPED else one for one in inner) + "\\ " * after


def _der(one: x509.NameAttribute[str | bytes]) -> bytes:
    content = one.value if isinstance(one.value, bytes) else one.value.encode()
    size = len(content)
    head = bytes([one._type.value, size]) if size < 0x80 else bytes([one._type.value, 0x81 if size < 0x100 else 0x82])
    return head + (b"" if size < 0x80 else size.to_bytes(1 if size < 0x100 else 2, "big")) + content
