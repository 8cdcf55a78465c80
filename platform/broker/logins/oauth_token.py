"""What a token must show before its bearer is a user. Pure: the keys come from the caller, who got them from the issuer.

Sources: RFC 7519 (JWT), RFC 8725 (its best practices), RFC 7515. joserfc checks the signature. What a token says of its own
key is never used: not a key inside it, not an address, and not the algorithm beyond the pinned ones."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jwk, jws
from joserfc.errors import JoseError

from ..settings.login_settings import OAuthSettings

Key = jwk.RSAKey | jwk.ECKey
LONGEST_TOKEN = 16 * 1024
LONGEST_NAME = 249
LEAST_RSA_BITS, MOST_RSA_BITS = 2_048, 8_192
MOST_KEYS = 100
_FORBIDDEN = ("jwk", "jku", "x5u", "x5c", "crit", "b64", "zip", "enc", "cty")
"""A key or its address inside the token, extensions that must be understood, and tokens inside a token."""
_TYPES = ("jwt", "at+jwt", "application/at+jwt")
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


class BadToken(ValueError):
    """A token is refused. The message is for the log and holds nothing of the token but names."""


class KeyUnknown(BadToken):
    """The issuer's keys, as they were fetched, have none for the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """Who has the token."""

    user: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Header:
    """What of a token's header is used."""

    algorithm: str
    key_id: str | None


def keys_of(document: bytes) -> dict[str | None, Key]:
    """Return the keys of a JWKS that can verify signatures, by their id. Others are left out, and so is every shared secret.
    Raises: ValueError.
    """
    try:
        listed = _object(document)["keys"]
        if not isinstance(listed, list) or len(listed) > MOST_KEYS:
            raise ValueError(f"keys is not a list of at most {MOST_KEYS}")
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it is not a JWKS: {type(error).__name__}") from None
    keys: dict[str | None, Key] = {}
    for one in listed:
        if not isinstance(one, dict) or one.get("kty") not in ("RSA", "EC") or one.get("use", "sig") != "sig":
            continue
        key_id = one.get("kid")
        if key_id is not None and not isinstance(key_id, str):
            continue
        public = {name: value for name, value in one.items() if name in ("kty", "n", "e", "crv", "x", "y", "alg")}
        try:
            key = jwk.import_key(public)
        except (JoseError, ValueError, TypeError):
            continue
        if isinstance(key, jwk.RSAKey) and not LEAST_RSA_BITS <= key.raw_value.key_size <= MOST_RSA_BITS:
            continue
        if isinstance(key, Key):
            keys[key_id] = key
    return keys


def header_of(token: str, settings: OAuthSettings) -> Header:
    """Return the header, when the token may be looked at at all. Raises: BadToken."""
    if len(token) > LONGEST_TOKEN:
        raise BadToken(f"the token has {len(token)} characters, at most {LONGEST_TOKEN} are taken")
    if token.count(".") != 2:
        raise BadToken("the token has not three parts: it is not a signed JWT, or it is an encrypted one")
    header = _part(token.split(".")[0], "header")
    if forbidden := [name for name in _FORBIDDEN if name in header]:
        raise BadToken(f"the token's header has {', '.join(forbidden)}")
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or algorithm not in settings.algorithms:
        raise BadToken(f"the token is signed with {str(algorithm)[:40]!r}, which sasl.oauthbearer.algorithms does not have")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise BadToken("the token's header has another typ than JWT or at+jwt")
    if key_id is not None and (not isinstance(key_id, str) or len(key_id) > LONGEST_NAME):
        raise BadToken("the token's header has a kid that is not a short text")
    return Header(algorithm, key_id)


def key_for(header: Header, keys: Mapping[str | None, Key]) -> Key:
    """Return the issuer's key for a token. Raises: KeyUnknown; BadToken when the key is for another algorithm."""
    if header.key_id is None and len(keys) == 1:
        key: Key | None = next(iter(keys.values()))
    else:
        key = keys.get(header.key_id)
    if key is None:
        raise KeyUnknown("the issuer has no key of the token's kid" if header.key_id else "the token names no key, of several")
    fits = (
        isinstance(key, jwk.ECKey) and key.curve_name == _CURVES[header.algorithm]
        if header.algorithm in _CURVES
        else isinstance(key, jwk.RSAKey)
    )
    if not fits or (key.alg or header.algorithm) != header.algorithm:
        raise BadToken(f"the token is signed with {header.algorithm}, which its key is not for")
    return key


def bearer_of(token: str, header: Header, key: Key, settings: OAuthSettings, now_ms: int) -> Bearer:
    """Return who has the token, after its signature and claims were checked. Raises: BadToken."""
    registry = jws.JWSRegistry(algorithms=[header.algorithm], strict_check_header=False)
    registry.max_header_length = LONGEST_TOKEN
    try:
        payload = jws.deserialize_compact(token, key, registry=registry).payload
    except (JoseError, ValueError, TypeError) as error:
        raise BadToken(f"the token's signature is not right ({type(error).__name__})") from None
    claims = _claims(payload)
    if claims.get("iss") != settings.issuer:
        raise BadToken("the token's iss is not sasl.oauthbearer.expected.issuer")
    audience = claims.get("aud")
    if settings.audience not in (audience if isinstance(audience, list) else [audience]):
        raise BadToken("the token's aud has not sasl.oauthbearer.expected.audience")
    expires_ms, begins_ms, issued_ms = (_instant(claims, name) for name in ("exp", "nbf", "iat"))
    if expires_ms is None:
        raise BadToken("the token has no exp")
    if now_ms >= expires_ms + settings.skew_ms:
        raise BadToken("the token has expired")
    if any(one is not None and one > now_ms + settings.skew_ms for one in (begins_ms, issued_ms)):
        raise BadToken("the token is not valid yet (nbf or iat)")
    user = claims.get("sub")
    if not isinstance(user, str) or not 0 < len(user) <= LONGEST_NAME or not user.isprintable():
        raise BadToken(f"the token's sub is not a text of 1 to {LONGEST_NAME} printable characters")
    return Bearer(user=user, expires_ms=expires_ms)


def _instant(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise BadToken(f"the token's {name} is not a number of seconds")
    return int(value * 1_000)


def _part(text: str, name: str) -> dict[str, Any]:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadToken(f"the token's {name} is not base64") from None
    return _claims(data, name)


def _claims(data: bytes, name: str = "content") -> dict[str, Any]:
    try:
        return _object(data)
    except (ValueError, RecursionError) as error:
        raise BadToken(f"the token's {name} is not a JSON object, or has a name twice ({type(error).__name__})") from None


def _object(data: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises: ValueError, also for a name that it has twice: two readers would take two values."""
    value = json.loads(data, object_pairs_hook=_once, parse_constant=_no_number)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number")
