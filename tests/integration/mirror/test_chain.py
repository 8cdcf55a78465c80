"""Chains A → B → C and fail-back stay byte for byte, by the brokers' own files, whatever is killed meanwhile."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.mirror.chain import Link, Site, await_same
from tests.support.processes import eventually

TOPIC, PARTITIONS = "clicks", 3


@pytest.fixture
def sites(zookeeper_chroot: str, tmp_path: Path) -> Iterator[list[Site]]:
    found = [Site(tmp_path, zookeeper_chroot, name) for name in ("a", "b", "c")]
    for site in found:
        site.broker.start()
    yield found
    for site in found:
        site.broker.kill()


@pytest.fixture
def links(tmp_path: Path) -> Iterator[dict[str, Link]]:
    found: dict[str, Link] = {}
    yield found
    for link in found.values():
        link.kill()


def test_a_chain_is_the_same_in_all_three_files_whatever_was_killed(
    sites: list[Site], links: dict[str, Link], tmp_path: Path
) -> None:
    first, middle, last = sites
    links["ab"], links["bc"] = Link(tmp_path, first, middle, "ab"), Link(tmp_path, middle, last, "bc")
    first.make(TOPIC, PARTITIONS)
    choice = random.Random(16)
    for link in links.values():
        link.start()
    for number in range(6):
        first.send(TOPIC, 3_000, f"round {number}", PARTITIONS)
        time.sleep(choice.uniform(0.0, 0.4))  # the moment is what is searched
        victim = choice.choice(["ab", "bc", "middle", "last"])
        if victim in links:
            links[victim].kill()
            links[victim].start()
        else:
            site = middle if victim == "middle" else last
            site.broker.kill()
            site.broker.restart()
    await_same(first, middle, TOPIC, PARTITIONS)
    await_same(first, last, TOPIC, PARTITIONS)
    assert sum(len(last.files(TOPIC, number)) for number in range(PARTITIONS)) > 1_000


def test_a_fail_over_and_back_leaves_the_same_bytes_on_both_sides(
    sites: list[Site], links: dict[str, Link], tmp_path: Path
) -> None:
    home, away, _ = sites
    home.make(TOPIC, PARTITIONS)
    links["there"] = Link(tmp_path, home, away, "there")
    links["there"].start()
    home.send(TOPIC, 2_000, "before", PARTITIONS)
    await_same(home, away, TOPIC, PARTITIONS)
    links["there"].kill()
    # Fail over: the copy is promoted and takes events; the home's topic becomes its copy.
    away.set_mirrored(TOPIC, False)
    home.set_mirrored(TOPIC, True)
    away.send(TOPIC, 2_000, "away", PARTITIONS)
    links["back"] = Link(tmp_path, away, home, "back")
    links["back"].start()
    away.send(TOPIC, 2_000, "still away", PARTITIONS)
    links["back"].kill()
    links["back"].start()
    await_same(home, away, TOPIC, PARTITIONS)
    links["back"].kill()
    # And back.
    home.set_mirrored(TOPIC, False)
    away.set_mirrored(TOPIC, True)
    home.send(TOPIC, 2_000, "home again", PARTITIONS)
    links["there"].start()
    await_same(home, away, TOPIC, PARTITIONS)
    assert links["there"].states() == []


def test_a_home_that_had_more_than_its_copy_says_so_and_is_made_anew_from_it(
    sites: list[Site], links: dict[str, Link], tmp_path: Path
) -> None:
    home, away, _ = sites
    home.make(TOPIC, 1)
    links["there"] = Link(tmp_path, home, away, "there")
    links["there"].start()
    home.send(TOPIC, 500, "before", 1)
    await_same(home, away, TOPIC, 1)
    links["there"].kill()
    home.send(TOPIC, 100, "never copied", 1)
    away.set_mirrored(TOPIC, False)
    home.set_mirrored(TOPIC, True)
    lost = home.files(TOPIC, 0)
    away.send(TOPIC, 1_000, "away", 1)
    links["back"] = Link(tmp_path, away, home, "back")
    links["back"].start()
    eventually(lambda: links["back"].states() in (["diverged"], ["source_behind"]), what="the difference told")
    assert home.files(TOPIC, 0) == lost, "nothing is overwritten"
    home.delete(TOPIC)
    await_same(home, away, TOPIC, 1)
    links["back"].kill()
    # The home's topic is another one now, by its id, and the same by its bytes: the way back is open.
    home.set_mirrored(TOPIC, False)
    away.set_mirrored(TOPIC, True)
    home.send(TOPIC, 500, "home again", 1)
    links["there"].start()
    await_same(home, away, TOPIC, 1)
    assert links["there"].states() == []
