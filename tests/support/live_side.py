"""A live cluster as an application sees it: a broker and a schema registry."""

from dataclasses import dataclass

from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess


@dataclass(frozen=True)
class LiveSide:
    broker: BrokerProcess
    registry: RegistryProcess

    @property
    def bootstrap(self) -> str:
        return self.broker.address

    @property
    def registry_url(self) -> str:
        return self.registry.url
