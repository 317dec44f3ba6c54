"""The strategies by name."""

from collections.abc import Mapping

from tracer.model.refusal import did_you_mean
from tracer.strategies.central_storage import CentralStorage
from tracer.strategies.mirrored import Mirrored
from tracer.strategies.multi_worker_mirrored import MultiWorkerMirrored
from tracer.strategies.one_device import OneDevice
from tracer.strategies.parameter_server_v1 import ParameterServerV1
from tracer.strategies.strategy import Strategy, StrategyError

_ALL: tuple[Strategy, ...] = (
    OneDevice(),
    Mirrored(),
    MultiWorkerMirrored(),
    CentralStorage(),
    ParameterServerV1(),
)
STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in _ALL}


def find_strategy(name: str) -> Strategy:
    """Raises StrategyError with the nearest name."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    hint = did_you_mean(name, STRATEGIES) or "."
    raise StrategyError(f"unknown strategy {name!r}{hint} There are: {', '.join(STRATEGIES)}")
