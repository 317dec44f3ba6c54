"""`tracer doctor`: what a run would find here, and by which rules it would go."""

import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Final

import torch

from tracer.launch.environment import PROXIES, process_settings
from tracer.launch.plan import TRANSPORTS, Limits
from tracer.launch.recording import DEFAULT, UNITS
from tracer.model.trace_policy import TracePolicy
from tracer.record.export_target import bare, target_from, with_bare_urls
from tracer.record.home import SCRATCH_BYTES, SHARED_MEMORY
from tracer.record.otel_settings import HONOURED, ignored, is_disabled, sampler_from
from tracer.rpc.channels import CALL_S, CONNECT_S, SILENCE_S

Row = tuple[str, str]

PACKAGES: Final = (
    "vizdist", "torch", "grpcio", "numpy", "pyarrow",
    "opentelemetry-api", "opentelemetry-proto", "protobuf",
)  # fmt: skip

#: field of Limits → what it bounds, and the flag that sets it
LIMITS: Final[Mapping[str, str]] = {
    "connect_s": "until every task answered (--connect-timeout)",
    "step_s": "a step (--step-timeout)",
    "shutdown_s": "from stop to SIGKILL",
    "drain_s": "of the collector without a sign of progress",
    "settle_s": "after a first error, for its cause to become known",
    "stopped_s": "that a task may be stopped by a signal (SIGSTOP)",
    "session_gc_s": "until a silent client's sessions are closed, 0: never (--session-gc)",
}
_SECRET: Final = ("HEADERS", "KEY")


def report(environ: Mapping[str, str] = os.environ) -> Iterator[tuple[str, list[Row]]]:
    """Sections of (what, how it is)."""
    yield "versions", [("python", platform.python_version()), *versions()]
    yield "devices", devices()
    yield "settings of task processes", settings(environ)
    yield "transport", transport(environ)
    yield "limits", limits()
    yield "recording", recording(environ)
    yield "OTEL_* variables", otel(environ)


def versions() -> Iterator[Row]:
    yield from ((package, version(package)) for package in PACKAGES)


def devices() -> list[Row]:
    cpus = os.cpu_count() or 1
    found = [("cpu", f"{cpus} cores; cpu:N gives a task N logical devices")]
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        found.append((f"cuda:{index}", f"{facts.name}, {facts.total_memory >> 30} GiB"))
    return found if len(found) > 1 else [*found, ("cuda", "torch finds no GPU")]


def settings(environ: Mapping[str, str]) -> list[Row]:
    """What the launcher sets for one device a host; what the user has set wins.

    Several share the cores, so each has fewer threads.
    """
    return [
        (name, f"{environ[name]} (yours; else {ours})" if name in environ else ours)
        for name, ours in process_settings(1).items()
    ]


def transport(environ: Mapping[str, str]) -> list[Row]:
    proxies = [name for name in PROXIES if environ.get(name)]
    memory = "memfd" if hasattr(os, "memfd_create") else "none"
    return [
        ("--transport", f"{', '.join(TRANSPORTS)} (default {TRANSPORTS[0]})"),
        ("shared memory", memory),
        ("proxies", f"{', '.join(proxies)}: ignored without --allow-proxy" if proxies else "none"),
        ("a try to connect", f"{CONNECT_S:g} s"),
        ("a rare call", f"{CALL_S:g} s"),
        ("a silent peer on local", f"{SILENCE_S:g} s"),
    ]


def limits() -> list[Row]:
    ours = Limits()
    return [
        *((words, f"{getattr(ours, name):g} s") for name, words in LIMITS.items()),
        ("export after the run (--flush-timeout)", f"{DEFAULT.flush_s:g} s"),
        ("trace folder (--max-trace-size)", f"{DEFAULT.limit_bytes // UNITS['GB']} GB"),
    ]


def recording(environ: Mapping[str, str]) -> list[Row]:
    policy = TracePolicy(share=sampler_from(environ))
    target = target_from(environ=environ)
    return [
        ("spans", "none: OTEL_SDK_DISABLED is true" if is_disabled(environ) else "recorded"),
        ("steps (--trace)", f"{policy.text}, {policy.share:.0%} of them"),
        ("detail (--detail)", DEFAULT.detail),
        ("export (--endpoint)", str(target) if target else "none"),
        ("rings", _rings()),
    ]


def _rings() -> str:
    """Where the records of a run wait for the collector."""
    if not SHARED_MEMORY.is_dir():
        return "on disk: no shared memory here"
    free = shutil.disk_usage(SHARED_MEMORY).free
    if free > SCRATCH_BYTES:
        return f"in {SHARED_MEMORY}, {free / UNITS['GB']:.1f} GB free"
    needed = SCRATCH_BYTES / UNITS["GB"]
    return f"on disk, which is slower: {SHARED_MEMORY} has less than {needed:.1f} GB free"


def otel(environ: Mapping[str, str]) -> list[Row]:
    """Every variable that is set: what it does here, or that it does nothing."""
    given = (name for name in HONOURED if name in environ)
    told = [(name, f"{_shown(name, environ)}  {HONOURED[name]}") for name in given]
    told += [(name, "ignored: it means nothing here") for name in ignored(environ)]
    return told or [("none is set", "honoured are: " + ", ".join(HONOURED))]


def _shown(name: str, environ: Mapping[str, str]) -> str:
    if name.endswith(_SECRET):
        return "(set)"
    text = environ[name]
    return repr(bare(text) if name.endswith("ENDPOINT") else with_bare_urls(text))


def written(sections: Iterator[tuple[str, list[Row]]]) -> Iterator[str]:
    """The lines that are printed."""
    for title, rows in sections:
        yield title
        width = max(len(what) for what, _ in rows)
        yield from (f"  {what:{width}}  {how}" for what, how in rows)
