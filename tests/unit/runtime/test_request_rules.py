"""What a browser may have been tricked into is refused; what every client of ours sends is not."""

from collections.abc import Mapping

import pytest

from headrace.runtime.serving.request_rules import AllowedHosts, Refusal, allowed_hosts, why_refused

OURS = AllowedHosts(["registry.example.com", ".lab.example.com", "box.example.org."])


def asked(method: str, headers: Mapping[str, str | list[str]]) -> Refusal | None:
    def values(name: str) -> list[str]:
        found = headers.get(name, [])
        return [found] if isinstance(found, str) else found

    return why_refused(method, values, OURS)


OUR_NAMES = """localhost localhost:8081 LOCALHOST a.localhost 127.0.0.1:8081 [::1]:8081 [::1] 10.1.2.3 registry:8081
live_broker-1:9094 registry.headrace.svc:8081 registry.headrace.svc.cluster.local Registry.Example.com:443 registry.example.com.
one.lab.example.com box.example.org:1"""
FOREIGN_NAMES = """evil.example evil.example:8081 127.0.0.1.evil.example localhost.evil.example registry.example.com.evil.example
lab.example.com.evil evil-lab.example.com [evil.example] [::1 [::1]evil evil.example@localhost :8081 localhost:80:80
localhost/evil.example"""


@pytest.mark.parametrize("host", OUR_NAMES.split())
def test_a_service_is_called_by_addresses_and_by_names_that_nobody_can_register(host: str) -> None:
    assert OURS.admit(host)
    assert asked("DELETE", {"host": host}) is None


@pytest.mark.parametrize("host", [*FOREIGN_NAMES.split(), "", " "])
def test_a_name_that_may_be_anybodys_is_refused_whatever_the_method(host: str) -> None:
    assert not OURS.admit(host)
    for method in ("GET", "DELETE", "PUT", "POST"):
        refusal = asked(method, {"host": host})
        assert refusal is not None
        assert refusal.status == 421


def test_names_come_from_the_environment_and_from_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "box.example.org")
    allowed = allowed_hosts({"HEADRACE_ALLOWED_HOSTS": "a.example.com, .b.example.com"}, "c.example.com", "")
    names = ["box.example.org", "a.example.com", "x.b.example.com", "c.example.com"]
    assert [allowed.admit(name) for name in names] == [True] * 4
    assert not allowed.admit("d.example.com")


def test_two_hosts_are_one_too_many() -> None:
    refusal = asked("GET", {"host": ["localhost", "localhost"]})
    assert refusal is not None
    assert refusal.status == 400


@pytest.mark.parametrize("kind", [None, "application/json", "application/vnd.schemaregistry.v1+json", "application/octet-stream"])
@pytest.mark.parametrize("host", [{}, {"host": "localhost:8081"}])
def test_clients_without_a_browser_may_change_things(kind: str | None, host: dict[str, str]) -> None:
    assert asked("POST", {**host, **({} if kind is None else {"content-type": kind})}) is None


@pytest.mark.parametrize("kind", [None, "application/json", "text/plain", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize(
    "marks",
    [
        {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://localhost:9000"}, {"origin": "http://127.0.0.1:8081"},
        {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
        {"origin": "http://localhost:8081", "sec-fetch-site": "cross-site"},
        {"origin": ["http://localhost:8081", "http://evil.example"]},
    ],
)  # fmt: skip
def test_a_page_of_another_origin_changes_nothing(marks: dict[str, str | list[str]], kind: str | None) -> None:
    headers = {"host": "localhost:8081", **marks, **({} if kind is None else {"content-type": kind})}
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        refusal = asked(method, headers)
        assert refusal is not None
        assert refusal.status == 403
    assert asked("GET", headers) is None


def test_a_page_of_the_service_itself_may() -> None:
    own = {"host": "localhost:8081", "origin": "http://localhost:8081", "sec-fetch-site": "same-origin"}
    assert asked("POST", {**own, "content-type": "application/json"}) is None


@pytest.mark.parametrize(
    "kind", ["text/plain", "Text/Plain; charset=utf-8", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_what_any_page_can_send_is_no_body_of_ours_even_without_marks(kind: str) -> None:
    refusal = asked("POST", {"host": "localhost", "content-type": kind})
    assert refusal is not None
    assert refusal.status == 415
