"""A driver that cannot be built says what is missing."""

import pytest

from bench.drivers.build import built
from bench.harness.unavailable import Unavailable


def test_without_a_compiler_a_driver_is_missing_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match=r"driver log_walk cannot be built \(install gcc\)"):
        built("log_walk")
