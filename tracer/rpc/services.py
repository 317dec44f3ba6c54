"""The rare calls as ordinary unary gRPC methods, so that any gRPC tool can talk to a task.

One row a method: the request's type and what it does. They may take long and wait for other tasks,
so they run on threads of their own, masters apart from workers: a master that waits for a worker
must not take the worker's last thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import grpc
import msgspec

from tracer.model.cluster import ClusterSpec
from tracer.model.graph_json import graph_from_json, nodes_from_json
from tracer.model.step import SpanContext
from tracer.rpc.channels import REFUSED, STATUS, context_of, error_metadata, has_secret
from tracer.rpc.messages import (
    CleanupAllRequest,
    CloseSessionRequest,
    CreateSessionRequest,
    CreateSessionResponse,
    CreateWorkerSessionRequest,
    DeleteWorkerSessionRequest,
    DeregisterGraphRequest,
    Empty,
    ExtendSessionRequest,
    ExtendSessionResponse,
    GetStatusResponse,
    ListDevicesRequest,
    ListDevicesResponse,
    MakeCallableRequest,
    MakeCallableResponse,
    Message,
    PartialRunSetupRequest,
    PartialRunSetupResponse,
    RegisterGraphRequest,
    RegisterGraphResponse,
    ReleaseCallableRequest,
    ResetRequest,
    decode,
    encode,
)
from tracer.rpc.spans import MASTER_SERVICE, WORKER_SERVICE, RpcSpan, call_site
from tracer.rpc.transport import Transport
from tracer.runtime.interfaces import (
    MasterInterface,
    RequestNames,
    SessionOptions,
    StepError,
    WorkerInterface,
)

_DETAILS_CHARS = 2000
_THREADS = 16


class Method(NamedTuple):
    request: type[Message]
    run: Callable[[Any, Any, SpanContext], Message | None]


def _get_status(worker: WorkerInterface, _: Empty, __: SpanContext) -> Message:
    status = worker.get_status()
    return GetStatusResponse(status.devices, status.pid, status.is_finished)


def _create_worker_session(
    worker: WorkerInterface, request: CreateWorkerSessionRequest, context: SpanContext
) -> None:
    jobs = {
        job: {int(index): address for index, address in tasks.items()}
        for job, tasks in request.cluster_def.items()
    }
    isolated = request.isolate_session_state
    worker.create_worker_session(request.session_handle, ClusterSpec(jobs), isolated, context)


def _delete_worker_session(
    worker: WorkerInterface, request: DeleteWorkerSessionRequest, _: SpanContext
) -> None:
    worker.delete_worker_session(request.session_handle)


def _register_graph(
    worker: WorkerInterface, request: RegisterGraphRequest, context: SpanContext
) -> Message:
    graph = graph_from_json(request.graph_def)
    handle = worker.register_graph(request.session_handle, graph, context, request.graph_id)
    return RegisterGraphResponse(handle)


def _deregister_graph(
    worker: WorkerInterface, request: DeregisterGraphRequest, _: SpanContext
) -> None:
    worker.deregister_graph(request.session_handle, request.graph_handle)


def _cleanup_all(worker: WorkerInterface, request: CleanupAllRequest, _: SpanContext) -> None:
    worker.cleanup_all(request.container)


def _create_session(
    master: MasterInterface, request: CreateSessionRequest, context: SpanContext
) -> Message:
    graph = graph_from_json(request.graph_def)
    options = SessionOptions(request.device_filters, request.isolate_session_state, request.client)
    return CreateSessionResponse(master.create_session(graph, context, options))


def _extend_session(
    master: MasterInterface, request: ExtendSessionRequest, _: SpanContext
) -> Message:
    nodes = nodes_from_json(request.graph_def)
    version = request.current_graph_version
    return ExtendSessionResponse(master.extend_session(request.session_handle, nodes, version))


def _partial_run_setup(
    master: MasterInterface, request: PartialRunSetupRequest, _: SpanContext
) -> Message:
    session, *names, request_id = _named(request)
    handle = master.partial_run_setup(session, RequestNames(*names), request_id)
    return PartialRunSetupResponse(handle)


def _make_callable(
    master: MasterInterface, request: MakeCallableRequest, _: SpanContext
) -> Message:
    session, *names, request_id = _named(request)
    return MakeCallableResponse(master.make_callable(session, RequestNames(*names), request_id))


def _named(request: PartialRunSetupRequest | MakeCallableRequest) -> tuple[Any, ...]:
    return msgspec.structs.astuple(request)


def _release_callable(
    master: MasterInterface, request: ReleaseCallableRequest, _: SpanContext
) -> None:
    master.release_callable(request.session_handle, request.handle)


def _reset(master: MasterInterface, request: ResetRequest, _: SpanContext) -> None:
    master.reset(request.container, request.device_filters)


def _close_session(master: MasterInterface, request: CloseSessionRequest, _: SpanContext) -> None:
    master.close_session(request.session_handle)


def _list_devices(master: MasterInterface, request: ListDevicesRequest, _: SpanContext) -> Message:
    return ListDevicesResponse(master.list_devices(request.session_handle))


WORKER_METHODS: Mapping[str, Method] = {
    "GetStatus": Method(Empty, _get_status),
    "CreateWorkerSession": Method(CreateWorkerSessionRequest, _create_worker_session),
    "DeleteWorkerSession": Method(DeleteWorkerSessionRequest, _delete_worker_session),
    "RegisterGraph": Method(RegisterGraphRequest, _register_graph),
    "DeregisterGraph": Method(DeregisterGraphRequest, _deregister_graph),
    "CleanupAll": Method(CleanupAllRequest, _cleanup_all),
}

MASTER_METHODS: Mapping[str, Method] = {
    "CreateSession": Method(CreateSessionRequest, _create_session),
    "ExtendSession": Method(ExtendSessionRequest, _extend_session),
    "PartialRunSetup": Method(PartialRunSetupRequest, _partial_run_setup),
    "MakeCallable": Method(MakeCallableRequest, _make_callable),
    "ReleaseCallable": Method(ReleaseCallableRequest, _release_callable),
    "Reset": Method(ResetRequest, _reset),
    "CloseSession": Method(CloseSessionRequest, _close_session),
    "ListDevices": Method(ListDevicesRequest, _list_devices),
}

_Handle = Callable[[bytes, Any], Awaitable[bytes]]


class UnaryServices:
    """Handlers of both services for one task."""

    def __init__(
        self, transport: Transport, worker: WorkerInterface, master: MasterInterface | None
    ) -> None:
        self._transport = transport
        self._pools: list[ThreadPoolExecutor] = []
        self.handlers = [self._service(WORKER_SERVICE, WORKER_METHODS, worker)]
        if master is not None:
            self.handlers.append(self._service(MASTER_SERVICE, MASTER_METHODS, master))

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)

    def _service(self, service: str, methods: Mapping[str, Method], target: Any) -> Any:
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=service.rpartition(".")[2])
        self._pools.append(pool)
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(
                self._handler(f"{service}/{name}", method, target, pool)
            )
            for name, method in methods.items()
        }
        return grpc.method_handlers_generic_handler(service, handlers)

    def _handler(self, name: str, method: Method, target: Any, pool: ThreadPoolExecutor) -> _Handle:
        transport = self._transport
        site = call_site(transport.recorder, "rpc.server", name, "")

        def run(request: bytes, parent: SpanContext) -> bytes:
            with RpcSpan(transport.recorder.open(site, parent)) as call:
                done = method.run(target, decode(method.request, request), call.context)
                call.answer = encode(done or Empty())
            return bytes(call.answer)

        async def handle(request: bytes, context: Any) -> bytes:
            metadata = context.invocation_metadata()
            if not has_secret(metadata, transport.secret):
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, REFUSED)
            loop = asyncio.get_running_loop()
            try:
                return await loop.run_in_executor(pool, run, request, context_of(metadata))
            except StepError as error:
                failure = error
            except msgspec.DecodeError as error:
                text = f"{name}: the request cannot be read: {error}"
                failure = StepError("INVALID_ARGUMENT", text, task=transport.task)
            except Exception as error:  # noqa: BLE001 (the caller is told)
                text = f"{name}: {type(error).__name__}: {error}"
                failure = StepError("INTERNAL", text, task=transport.task)
            context.set_trailing_metadata(error_metadata(failure))
            code = STATUS.get(failure.code, grpc.StatusCode.UNKNOWN)
            await context.abort(code, failure.message[:_DETAILS_CHARS])
            raise AssertionError("abort raises")

        return handle
