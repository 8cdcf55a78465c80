"""The settings of the audit service."""

from pathlib import Path

import pytest

from headrace.audit.service import settings as settings_file
from headrace.audit.service.errors import SettingsError

DEPLOYED = Path(__file__).parents[4] / "deploy" / "local" / "audit.toml"


def test_the_settings_that_make_up_uses_are_sound_and_say_what_is_expected() -> None:
    settings = settings_file.load(DEPLOYED)
    assert [rule.name for rule in settings.rules("other", set())] == ["producer", "live", "mirror", "offline", "warehouse"]
    rules = {rule.name: rule for rule in settings.rules("access_log", {"consumer:late"})}
    assert rules["consumer:request-rate"].is_required
    assert not rules["consumer:late"].is_required
    assert rules["consumer:request-rate"].takes_part(0)
    assert not rules["consumer:late"].takes_part(0)
    assert rules["consumer:late"].before == "live"
    assert (rules["mirror"].deadline_ms, rules["warehouse"].deadline_ms) == (20_000, 120_000)


def test_a_sink_may_be_asked_for_and_be_given_a_deadline_and_is_none_of_the_verdict_s_tiers() -> None:
    words = {"deadlines_ms": {"sink": 5, "sink:b": 7}, "topics": {"default": {"adds": ["sink:a"], "without": ["sink:gone"]}}}
    rules = {rule.name: rule for rule in settings_file.parse(words, "x").rules("t", {"sink:b", "sink:gone"})}
    assert {name for name, rule in rules.items() if not rule.takes_part(0)} == {"sink:a", "sink:b"}
    assert [(rules[name].deadline_ms, rules[name].is_required, rules[name].before) for name in ("sink:a", "sink:b")] == [
        (5, True, "live"),
        (7, False, "live"),
    ]
    assert settings_file.load(None).rules("t", {"sink:a"})[-1].deadline_ms == 180_000


def test_every_fault_of_the_settings_is_named_at_once() -> None:
    words = {
        "service": {"window_ms": 0, "widow_ms": 5},
        "deadlines_ms": {"default": "soon", "moon": 5},
        "topics": {"a": {"tiers": ["producer", "mirror", "mars"]}, "b": {"tires": []}},
        "extra": {},
    }
    with pytest.raises(SettingsError) as caught:
        settings_file.parse(words, "audit.toml")
    for part in ("[extra]", "window_ms=0", "widow_ms", "default='soon'", "'moon'", "'mars'", "leaves out 'live'", "tires"):
        assert part in str(caught.value)


def test_rules_that_retire_are_read_and_their_faults_named() -> None:
    rule = {"applications": "shop*", "after_ms": 900_000, "reason": "hosts are cattle"}
    (read,) = settings_file.parse({"retire": [rule]}, "x").retire
    assert (read.applications, read.after_ms, read.reason) == ("shop*", 900_000, "hosts are cattle")
    assert settings_file.load(None).retire == (), "off by default"
    for bad in ({"after_ms": 59_999}, {"applications": ""}, {"reason": ""}, {"after": 5}):
        with pytest.raises(SettingsError, match=r"\[\[retire\]\] rule 1"):
            settings_file.parse({"retire": [rule | bad]}, "x")


def test_a_setting_that_went_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings_file.parse({"service": {"presumed_dead_ms": 5, "discover_ms": 7}}, "audit.toml")
    assert "setting_without_effect" in caplog.text


def test_windows_of_another_width_are_refused() -> None:
    """Names a fault: the setting worked in the audit alone, and all that others reported was refused."""
    with pytest.raises(SettingsError, match=r"window_ms=300000 would hold for the audit alone.*600000 ms; remove the line"):
        settings_file.parse({"service": {"window_ms": 300_000}}, "audit.toml")


def test_settings_that_cannot_be_read_are_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no audit settings at"):
        settings_file.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[topics")
    with pytest.raises(SettingsError, match="TOML"):
        settings_file.load(tmp_path / "bad.toml")


def test_a_group_that_was_taken_down_can_be_left_out() -> None:
    settings = settings_file.parse({"topics": {"default": {"without": ["consumer:old", "warehouse"]}}}, "x")
    assert [rule.name for rule in settings.rules("t", {"consumer:old"})] == ["producer", "live", "mirror", "offline"]
