"""The workload that a request names, bundled or the user's, made with its options."""

from collections.abc import Mapping
from dataclasses import dataclass

from tracer.model.option import Declared, values_of
from tracer.workloads.factory import Factory, options_of, returns
from tracer.workloads.given import graph_of, workload_of
from tracer.workloads.graph_workload import GraphWorkload
from tracer.workloads.imported import import_factory, names_factory
from tracer.workloads.registry import find_workload
from tracer.workloads.seeds import drawing_by
from tracer.workloads.users_code import in_users_code
from tracer.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Requested:
    """A factory by the name that it was asked for, and the options that it declares.

    `is_graph`: it makes a GraphWorkload.
    """

    name: str
    factory: Factory
    options: Declared
    is_graph: bool = False

    @classmethod
    def named(cls, name: str) -> "Requested":
        """Raises UnknownWorkload or FactoryError."""
        factory = import_factory(name) if names_factory(name) else find_workload(name)
        return cls(name, factory, options_of(factory, name), returns(factory, GraphWorkload))

    def make(self, texts: Mapping[str, str], seed: int) -> Workload:
        """Calls the factory; what it draws at random is the same for the same seed.

        Raises FactoryError.
        """
        return workload_of(self._made(texts, seed), self.name)

    def make_graph(self, texts: Mapping[str, str], seed: int) -> GraphWorkload:
        """The same where `is_graph`."""
        return graph_of(self._made(texts, seed), self.name)

    def _made(self, texts: Mapping[str, str], seed: int) -> object:
        values = values_of(self.options, texts)
        with drawing_by(seed):
            return in_users_code(self.name, lambda: self.factory(**values))
