"""A user's tracer over a recorder, and what stands in the trace in the end, as protobuf."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.record.written_trace import WrittenTrace, as_proto, lines_of, value
from tracer.model.trace_folder import spans_path
from tracer.record.facade import TracerProvider
from tracer.record.recorder import Recorder


class Users:
    """A recorder with a user's tracer over it, and what stands in the trace in the end."""

    def __init__(self, folder: Path) -> None:
        self.trace = WrittenTrace(folder)
        self.recorder: Recorder = self.trace.recorder()
        self.provider = TracerProvider(self.recorder)
        self.provider.follow([self.recorder])
        self.tracer = self.provider.get_tracer("my.library", "1.2")

    def spans(self) -> dict[str, Span]:
        """By name."""
        self.recorder.close()
        self.trace.finish()
        path = spans_path(self.trace.folder, "worker:0", 0)
        return {
            span.name: span
            for _, _, document in lines_of(path)
            for scope in as_proto(document).resource_spans[0].scope_spans
            for span in scope.spans
        }

    def scopes(self) -> set[tuple[str, str]]:
        path = spans_path(self.trace.folder, "worker:0", 0)
        scopes = (as_proto(d).resource_spans[0].scope_spans[0].scope for _, _, d in lines_of(path))
        return {(scope.name, scope.version) for scope in scopes}


@contextmanager
def users_of(folder: Path) -> Iterator[Users]:
    """In a context of its own: what a test leaves current bothers no other."""
    token = otel.attach(otel.Context())
    yield Users(folder)
    otel.detach(token)


def attributes(owner: Any) -> dict[str, Any]:
    return {item.key: value(item.value) for item in owner.attributes}


def own(span: Span) -> dict[str, Any]:
    return {k: v for k, v in attributes(span).items() if not k.startswith("vizdist.")}


def id_of(span: trace.Span) -> bytes:
    return span.get_span_context().span_id.to_bytes(8, "big")
