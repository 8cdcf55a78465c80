"""A store or a catalog that does not answer is reported by name and never taken for a loss: nobody is told anything wrong."""

import pytest

from headrace.spark.errors import CatalogUnreachable, StoreUnreachable
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.topic_table import MAIN
from tests.support.postgresql import PostgresqlServer
from tests.support.stored_table import Stored
from tests.support.warehouse_worlds import World

from .conftest import PASSWORD, S3

TOPIC = "clicks"


@pytest.mark.whole
@pytest.mark.parametrize("world", [S3], indirect=True)
def test_while_the_store_is_away_nothing_is_told_and_nothing_withdrawn(world: World) -> None:
    """Fault: files of a store that is away count as gone, and published hours are withdrawn."""
    stored = Stored(world.settings, TOPIC)
    stored.load(0, 2)
    stored.publish()
    stored.load(1, 2)
    table = world.warehouse().existing_table(TOPIC)
    paths = [table.path_of(file) for file in table.files(MAIN)]
    told = dict(stored.audit._told)
    assert world.s3 is not None
    world.s3.kill()
    try:
        for path in paths:
            with pytest.raises(StoreUnreachable, match=f"{path} cannot be reached"):
                path.stat()
        for step in (stored.count, stored.publish, lambda: list(verify(stored.warehouse, TOPIC))):
            with pytest.raises(StoreUnreachable):
                step()
        assert stored.audit._told == told
    finally:
        world.s3.start()
    assert stored.publish().withdrawn == ()
    assert len(world.rows(TOPIC, MAIN)) == 4


@pytest.mark.parametrize("world", [S3], indirect=True)
def test_while_the_catalog_is_away_nothing_is_told_and_nothing_withdrawn(world: World, postgresql: PostgresqlServer) -> None:
    stored = Stored(world.settings, TOPIC)
    stored.load(0, 2)
    postgresql.kill()
    try:
        for step in (stored.count, stored.publish, stored.warehouse.topics, world.warehouse().topics):
            with pytest.raises(CatalogUnreachable) as told:
                step()
            assert PASSWORD not in str(told.value)
    finally:
        postgresql.start()
    assert len(stored.publish().published) == 1
    assert len(world.rows(TOPIC, MAIN)) == 2
