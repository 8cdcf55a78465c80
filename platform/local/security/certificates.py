"""A CA and the certificates that it signs, as PEM files. Needs `cryptography` (`headrace[broker]`).

Clients' certificates are for clients only: a mirror's certificate cannot serve as a broker or as ZooKeeper.
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import HeadraceError
from ...runtime.whole_file import replace_file

if TYPE_CHECKING:
    from cryptography import x509

SECRET_MODE, FOLDER_MODE = 0o600, 0o700
CA_DAYS = 3_650
_BACKDATED = datetime.timedelta(minutes=5)
"""The clocks of other machines may be behind."""


class SecurityError(HeadraceError):
    """The files of a secured platform cannot be made or used."""


def _libraries() -> tuple[Any, Any, Any, Any]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise SecurityError(
            "making certificates needs the package cryptography, which the extra broker has: run this command where a broker is "
            "installed"
        ) from error
    return x509, hashes, serialization, ec


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA: its certificate and its key."""

    folder: Path
    """Holds `ca.pem` and `ca.key`."""
    certificate: "x509.Certificate"
    key: Any

    @classmethod
    def made(cls, folder: Path) -> "Authority":
        """Return a new CA, written to the folder."""
        x509, hashes, _, ec = _libraries()
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("headrace-ca")
        builder = _builder(name, name, key.public_key(), CA_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        builder = builder.add_extension(_usage(is_ca=True), critical=True)
        made = cls(folder, builder.sign(key, hashes.SHA256()), key)
        write_secret(folder / "ca.key", _key_pem(key))
        write_secret(folder / "ca.pem", _pem(made.certificate))
        return made

    @classmethod
    def read(cls, folder: Path) -> "Authority":
        """Return the CA of a folder. Raises SecurityError."""
        x509, _, serialization, _ = _libraries()
        try:
            certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
            key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise SecurityError(
                f"the CA of {folder} cannot be read ({type(error).__name__}): put ca.pem and ca.key back, or make a new folder"
            ) from None
        if certificate.not_valid_after_utc <= datetime.datetime.now(datetime.UTC):
            raise SecurityError(f"the CA of {folder} is no longer valid: make a new folder, and give its ca.pem to every machine")
        return cls(folder, certificate, key)

    def issue(self, file: Path, subject: str, *, hosts: Sequence[str], days: int) -> None:
        """Write a new key and certificate into one file. With `hosts` it is for servers of these names, too."""
        x509, hashes, _, ec = _libraries()
        key = ec.generate_private_key(ec.SECP256R1())
        oid = x509.oid.ExtendedKeyUsageOID
        builder = _builder(_name(subject), self.certificate.subject, key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(is_ca=False), critical=True)
        usages = [oid.CLIENT_AUTH, *([oid.SERVER_AUTH] if hosts else [])]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(signer, critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        write_secret(file, _key_pem(key) + _pem(builder.sign(self.key, hashes.SHA256())))


def days_left(file: Path) -> int:
    """Return for how many whole days the certificate in a PEM file is valid. Raises SecurityError."""
    x509, *_ = _libraries()
    try:
        ends = x509.load_pem_x509_certificate(
            file.read_bytes()[file.read_bytes().index(b"-----BEGIN CERT") :]
        ).not_valid_after_utc
    except (OSError, ValueError) as error:
        raise SecurityError(f"{file} holds no certificate that can be read ({type(error).__name__})") from None
    return int((ends - datetime.datetime.now(datetime.UTC)).days)


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter. Raises SecurityError where it may be entered by others."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        raise SecurityError(f"other users can enter {folder}: chmod 700 {folder}, or name a folder that is not there yet")


def write_secret(file: Path, content: bytes) -> None:
    """Replace a file that only its owner can read, whatever the umask is."""
    before = os.umask(0o077)
    try:
        replace_file(file, content, is_durable=True, mode=SECRET_MODE)
    finally:
        os.umask(before)


def _builder(subject: Any, issuer: Any, public_key: Any, days: int) -> Any:
    x509, *_ = _libraries()
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _BACKDATED).not_valid_after(now + datetime.timedelta(days=days))


def _name(common_name: str) -> Any:
    x509, *_ = _libraries()
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, common_name)])


def _alternative(host: str) -> Any:
    x509, *_ = _libraries()
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, is_ca: bool) -> Any:
    x509, *_ = _libraries()
    return x509.KeyUsage(
        digital_signature=not is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: Any) -> bytes:
    _, _, serialization, _ = _libraries()
    return bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _key_pem(key: Any) -> bytes:
    _, _, serialization, _ = _libraries()
    plain = serialization.NoEncryption()
    return bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
