"""Subjects of certificates as Java writes them. The expected texts were printed by OpenJDK 17, `X500Principal.getName()`."""

import pytest
from cryptography import x509
from cryptography.x509 import ObjectIdentifier
from cryptography.x509.oid import NameOID

from headrace.broker.network.distinguished_name import distinguished_name

C, ORG, CN, UID = NameOID.COUNTRY_NAME, NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME, NameOID.USER_ID

Part = list[tuple[ObjectIdentifier, str]]


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        ([[(C, "DE")], [(ORG, "Acme, Inc.")], [(CN, "alice")]], r"CN=alice,O=Acme\, Inc.,C=DE"),
        ([[(CN, ' lead#x=+<>;"\\ trail ')]], r"CN=\ lead\#x\=\+\<\>\;\"\\ trail\ "),
        (
            [[(CN, "ünï"), (UID, "u1")], [(NameOID.EMAIL_ADDRESS, "a@b.c")]],
            "1.2.840.113549.1.9.1=#16056140622e63,CN=ünï+UID=u1",
        ),
        (
            [
                [(NameOID.STREET_ADDRESS, "S 1")],
                [(NameOID.DOMAIN_COMPONENT, "org")],
                [(NameOID.STATE_OR_PROVINCE_NAME, "ST")],
                [(NameOID.LOCALITY_NAME, "L")],
                [(NameOID.ORGANIZATIONAL_UNIT_NAME, "a  b")],
                [(NameOID.SERIAL_NUMBER, "77")],
            ],
            "2.5.4.5=#13023737,OU=a  b,L=L,ST=ST,DC=org,STREET=S 1",
        ),
        ([[(CN, "#hash")]], r"CN=\#hash"),
        ([[(CN, "a"), (ORG, "b"), (CN, "A1")]], "CN=a+O=b+CN=A1"),
        ([[(CN, " ")]], r"CN=\ "),
        ([[(CN, "  two  ")]], r"CN=\ \ two\ \ "),
        ([[(NameOID.TITLE, "x" * 130)], [(CN, "t")]], "CN=t,2.5.4.12=#0c8182" + "78" * 130),
    ],
)
def test_a_subject_is_written_as_java_writes_it(parts: list[Part], written: str) -> None:
    name = x509.Name([x509.RelativeDistinguishedName([x509.NameAttribute(*one) for one in part]) for part in parts])
    assert distinguished_name(name) == written
