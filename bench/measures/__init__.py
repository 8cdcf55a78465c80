"""The measures, one file each. `ALL` is their order in a run: measures that use the same servers follow one another."""

from ..harness.measure import Measure
from .bare import Bare
from .ceiling import Ceiling
from .consume import Consume
from .durable import Durable
from .footprint import Footprint
from .growth import Growth
from .latency import Latency
from .produce import Produce
from .python_view import PythonView
from .restart import Restart

ALL: tuple[Measure, ...] = (
    Produce(),
    Consume(),
    PythonView(),
    Ceiling(),
    Latency(),
    Bare(),
    Durable(),
    Footprint(),
    Restart(),
    Growth(),
)
