"""The strategies by name, and the options that each declares."""

from collections.abc import Iterable, Mapping

from tracer.model.refusal import did_you_mean
from tracer.strategies.one_device import OneDevice
from tracer.strategies.parameter_server_v1 import ParameterServerV1
from tracer.strategies.strategy import Strategy, StrategyError

_ALL: tuple[Strategy, ...] = (OneDevice(), ParameterServerV1())
STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in _ALL}


def find_strategy(name: str) -> Strategy:
    """Raises StrategyError with the nearest name."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    hint = did_you_mean(name, STRATEGIES) or "."
    raise StrategyError(f"unknown strategy {name!r}{hint} There are: {', '.join(STRATEGIES)}")


def parse_options(strategy: str, given: Iterable[str]) -> Mapping[str, str]:
    """`NAME=VALUE` texts → the options in force. Raises StrategyError for what is not declared."""
    declared = STRATEGIES[strategy].options
    options = {name: option.default for name, option in declared.items()}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in declared:
            hint = did_you_mean(name, declared)
            known = ", ".join(declared) or "none"
            raise StrategyError(f"--option {text}{hint}: {strategy} declares: {known}")
        if declared[name].allowed and value not in declared[name].allowed:
            allowed = ", ".join(declared[name].allowed)
            raise StrategyError(f"--option {text}: {name} may be {allowed}")
        options[name] = value
    return options
