"""Tokens that must not be taken, one test each, after the advisories of JWT libraries; and those that must."""

import base64
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies
from joserfc import jwk, jws

from headrace.broker.logins.oauth_token import BadToken, Bearer, KeyUnknown, bearer_of, header_of, key_for, keys_of
from headrace.broker.settings.login_settings import OAuthSettings

NOW_MS = 1_800_000_000_000
NOW = NOW_MS // 1_000
SETTINGS = OAuthSettings(
    jwks_url="https://issuer.test/jwks",
    jwks_ca=None,
    issuer="https://issuer.test",
    audience="kafka",
    algorithms=("RS256", "PS256", "ES256"),
    skew_ms=30_000,
    refresh_ms=1,
)
RSA = jwk.RSAKey.generate_key(2048, {"kid": "rsa"})
EC = jwk.ECKey.generate_key("P-256", {"kid": "ec"})
STRANGER = jwk.RSAKey.generate_key(2048, {"kid": "rsa"})
JWKS = {"keys": [RSA.as_dict(private=False), EC.as_dict(private=False)]}
GOOD: dict[str, Any] = {"iss": SETTINGS.issuer, "aud": "kafka", "sub": "alice", "exp": NOW + 600, "iat": NOW - 1}


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(
    claims: dict[str, Any] | bytes = GOOD, key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **header: Any
) -> str:
    """Return a signed token."""
    whole = {"alg": algorithm, "typ": "JWT", **({} if kid is None else {"kid": kid}), **header}
    payload = claims if isinstance(claims, bytes) else json.dumps(claims)
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.max_header_length = 100_000
    return jws.serialize_compact(whole, payload, key, registry=registry)


def by_hand(header: dict[str, Any] | bytes, sign: Callable[[bytes], bytes], claims: dict[str, Any] = GOOD) -> str:
    first = header if isinstance(header, bytes) else json.dumps(header).encode()
    signed = f"{b64(first)}.{b64(json.dumps(claims).encode())}"
    return f"{signed}.{b64(sign(signed.encode()))}"


def taken(text: str, settings: OAuthSettings = SETTINGS, jwks: Any = JWKS, now_ms: int = NOW_MS) -> Bearer:
    header = header_of(text, settings)
    return bearer_of(text, header, key_for(header, keys_of(json.dumps(jwks).encode())), settings, now_ms)


def refused(text: str, why: str, settings: OAuthSettings = SETTINGS, jwks: Any = JWKS) -> None:
    with pytest.raises(BadToken, match=why):
        taken(text, settings, jwks)


@pytest.mark.parametrize(("key", "algorithm", "kid"), [(RSA, "RS256", "rsa"), (RSA, "PS256", "rsa"), (EC, "ES256", "ec")])
def test_a_token_of_the_issuer_is_taken(key: Any, algorithm: str, kid: str) -> None:
    assert taken(token(GOOD, key, algorithm, kid)) == Bearer(user="alice", expires_ms=(NOW + 600) * 1_000)


def test_an_audience_may_be_a_list_and_a_type_is_not_needed() -> None:
    assert taken(token({**GOOD, "aud": ["other", "kafka"]}, typ="at+jwt")).user == "alice"


def test_a_token_without_kid_is_taken_where_there_is_one_key() -> None:
    assert taken(token(kid=None), jwks={"keys": JWKS["keys"][:1]}).user == "alice"
    refused(token(kid=None), "names no key")


def test_clocks_may_differ_by_the_skew() -> None:
    assert taken(token({**GOOD, "exp": NOW - 29, "nbf": NOW + 29, "iat": NOW + 29})).user == "alice"


def test_alg_none_is_refused() -> None:
    for word in ("none", "None", "NONE", "nOnE", ""):
        refused(by_hand({"alg": word, "kid": "rsa"}, lambda _: b""), "signed with")


def test_the_public_key_is_not_taken_for_a_shared_secret() -> None:
    """CVE-2016-10555 and its successors: HS256 with the RSA key's PEM, which everybody has."""
    pem = RSA.as_pem(private=False)
    forged = by_hand({"alg": "HS256", "kid": "rsa"}, lambda signed: hmac.digest(pem, signed, "sha256"))
    refused(forged, "signed with 'HS256'")


def test_a_shared_secret_among_the_keys_is_no_key() -> None:
    secret = {"kty": "oct", "kid": "s", "k": b64(b"s" * 32)}
    assert keys_of(json.dumps({"keys": [secret]}).encode()) == {}


def test_a_key_for_another_algorithm_is_refused() -> None:
    refused(token(GOOD, EC, "ES256", "rsa"), "not for")
    pinned = {"keys": [{**JWKS["keys"][0], "alg": "PS256"}]}
    refused(token(), "not for", jwks=pinned)


def test_a_key_for_encryption_is_no_key() -> None:
    with pytest.raises(KeyUnknown):
        taken(token(), jwks={"keys": [{**JWKS["keys"][0], "use": "enc"}]})


def test_a_short_key_is_no_key() -> None:
    short = jwk.RSAKey.generate_key(1024, {"kid": "rsa"}).as_dict(private=False)
    assert keys_of(json.dumps({"keys": [short]}).encode()) == {}


def test_a_token_signed_by_another_with_the_same_kid_is_refused() -> None:
    refused(token(GOOD, STRANGER), "signature")


@pytest.mark.parametrize(
    "extra",
    [
        {"jwk": STRANGER.as_dict(private=False)},
        {"jku": "https://evil.test/jwks"},
        {"x5u": "https://evil.test/cert"},
        {"x5c": ["MIIB"]},
        {"zip": "DEF"},
        {"cty": "JWT"},
        {"enc": "A256GCM"},
    ],
)
def test_a_token_that_brings_or_names_its_own_key_or_holds_another_token_is_refused(extra: dict[str, Any]) -> None:
    refused(by_hand({"alg": "RS256", "kid": "rsa", **extra}, lambda _: b"x" * 256), "header has")


@pytest.mark.parametrize("extra", [{"crit": ["exp"]}, {"crit": []}, {"crit": ["b64"], "b64": False}, {"b64": False}])
def test_extensions_that_must_be_understood_are_refused(extra: dict[str, Any]) -> None:
    refused(by_hand({"alg": "RS256", "kid": "rsa", **extra}, lambda _: b"x" * 256), "header has")


@pytest.mark.parametrize("kid", ["../../../dev/null", "' OR 1=1 --", "x" * 100, "\0"])
def test_a_kid_is_a_name_in_the_set_and_nothing_else(kid: str) -> None:
    with pytest.raises(KeyUnknown):
        taken(token(kid=kid))


@pytest.mark.parametrize("kid", [7, ["rsa"], {"rsa": 1}, "x" * 300, True])
def test_a_kid_that_is_no_short_text_is_refused(kid: Any) -> None:
    refused(by_hand({"alg": "RS256", "kid": kid}, lambda _: b"x" * 256), "kid")


@pytest.mark.parametrize("issuer", [["https://issuer.test"], "https://issuer.test/", "HTTPS://issuer.test", {"a": 1}, None, True])
def test_the_issuer_is_this_text_and_no_list(issuer: Any) -> None:
    """CVE-2024-53861 and the list-valued iss of 2026."""
    refused(token({**GOOD, "iss": issuer}), "iss")


def test_a_token_without_issuer_is_refused() -> None:
    refused(token({name: value for name, value in GOOD.items() if name != "iss"}), "iss")


@pytest.mark.parametrize("audience", ["kafka2", "", [], ["kafka2"], "a kafka", {"kafka": 1}, None, [["kafka"]]])
def test_a_token_for_others_is_refused(audience: Any) -> None:
    refused(token({**GOOD, "aud": audience}), "aud")


def test_an_expired_token_is_refused() -> None:
    refused(token({**GOOD, "exp": NOW - 30}), "expired")


@pytest.mark.parametrize("name", ["nbf", "iat"])
def test_a_token_of_the_future_is_refused(name: str) -> None:
    refused(token({**GOOD, name: NOW + 31}), "not valid yet")


@pytest.mark.parametrize("exp", ["9999999999", None, True, -1, 1e300, [NOW + 600]])
def test_an_end_that_is_no_number_of_seconds_is_refused(exp: Any) -> None:
    refused(token({**GOOD, "exp": exp}), "exp")


def test_a_token_without_end_is_refused() -> None:
    refused(token({name: value for name, value in GOOD.items() if name != "exp"}), "no exp")


@pytest.mark.parametrize("word", [b"NaN", b"Infinity", b"-Infinity"])
def test_numbers_that_json_does_not_have_are_refused(word: bytes) -> None:
    refused(token(json.dumps(GOOD).encode().replace(str(NOW + 600).encode(), word)), "not a JSON object")


@pytest.mark.parametrize("sub", ["", None, 7, ["alice"], "a" * 250, "alice\n", "alice\0", "\u202ealice"])
def test_a_subject_that_is_no_printable_name_is_refused(sub: Any) -> None:
    refused(token({**GOOD, "sub": sub}), "sub")


def test_a_claim_or_a_header_that_is_there_twice_is_refused() -> None:
    doubled = json.dumps(GOOD)[:-1].encode() + b', "sub": "admin"}'
    refused(token(doubled), "twice")
    refused(by_hand(b'{"alg": "RS256", "kid": "rsa", "alg": "none"}', lambda _: b"x" * 256), "twice")


def test_an_encrypted_token_is_refused() -> None:
    refused(".".join(["a"] * 5), "three parts")


def test_a_huge_token_is_refused_before_it_is_read() -> None:
    refused(token({**GOOD, "x": "y" * 20_000}), "characters")
    refused("a" * 1_000_000, "characters")


def test_deep_json_is_refused() -> None:
    deep = b"[" * 5_000 + b"]" * 5_000
    refused(f"{b64(deep)}.e30.x", "header")


@pytest.mark.parametrize("text", ["..", "a.b.c", "e30.e30.", "e30.e30.e30", "\u00e9.e30.e30", " ", "e30=.e30=.e30="])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(BadToken):
        taken(text)


def test_a_token_with_bytes_behind_its_signature_is_refused() -> None:
    refused(token() + "=", "signature")
    refused(token() + "AAAA", "signature")
    refused(token()[:-6], "signature")


@given(strategies.integers(0, 10_000), strategies.integers(0, 255))
def test_a_changed_byte_is_never_taken(at: int, byte: int) -> None:
    text = _SAMPLE
    at %= len(text)
    changed = text[:at] + chr(byte) + text[at + 1 :]
    if changed == text or _same_bytes(changed, text):
        return
    with pytest.raises(BadToken):
        taken(changed)


def _same_bytes(one: str, other: str) -> bool:
    """Whether both hold the same: the last character of a base64 part has bits that count for nothing."""
    try:
        return [base64.urlsafe_b64decode(p + "==") for p in one.split(".")] == [
            base64.urlsafe_b64decode(p + "==") for p in other.split(".")
        ]
    except ValueError:
        return False


_SAMPLE = token()


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": [1], "keys": []}', b"\xff", b'{"keys": ' + b"[" * 9_000]
)
def test_what_is_no_set_of_keys_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError):
        keys_of(document)


def test_keys_that_cannot_be_read_are_left_out() -> None:
    broken: list[Any] = [
        None,
        {"kty": "RSA", "kid": "a", "n": "!", "e": "AQAB"},
        {"kty": "EC", "kid": "b", "crv": "P-256", "x": "AA", "y": "AA"},
    ]
    assert set(keys_of(json.dumps({"keys": [*broken, JWKS["keys"][1]]}).encode())) == {"ec"}
