"""What a redacted copy of a foreign OTLP file may not keep: text that stands where no name should.

Every place of OTLP that takes text of anybody's gets a secret of its own.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tracer.model.trace_folder import Manifest
from vizdist.cli import main
from vizdist.store.redaction import Redactor
from vizdist.store.trace import Trace, open_trace


def text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


SPAN: dict[str, Any] = {
    "traceId": f"{1:032x}",
    "spanId": f"{2:016x}",
    "parentSpanId": "secretparent",
    "traceState": "secretstate=1",
    "name": "GET 10.20.30.40 [2001:4860:4860::8888]:443 00:16:3e:12:34:56 deadbeefcafe0123 secret",
    "kind": "secretkind",
    "flags": "secretflags",
    "startTimeUnixNano": "1700000000000000000",
    "endTimeUnixNano": "1700000000000000500",
    "attributes": [text("secretkey", "x"), text("vizdist.edge.kind", "secretedge"),
                   text("vizdist.request_id", "secretid"), text("vizdist.op", "secretop"),
                   text("vizdist.node", "secretop/user_4155550123")],
    "events": [{"name": "secretevent", "timeUnixNano": "1700000000000000100",
                "attributes": [text("exception.stacktrace", "secrettrace")]}],
    "links": [{"traceId": f"{1:032x}", "spanId": "secretlink", "traceState": "secretstate",
               "attributes": [text("link.kind", "secretlinkkind"), text("secretlinkkey", "x")]}],
    "status": {"code": "secretcode", "message": "secretmessage"},
}  # fmt: skip


def document(scopes: str) -> dict[str, Any]:
    resource = [text("service.name", "secretservice"), text("host.name", "secrethost"),
                text("vizdist.schema.version", "secretversion")]  # fmt: skip
    scope = {"name": "secretscope", "version": "secret1", "attributes": [text("secretscope", "x")]}
    spans = {"scope": scope, "schemaUrl": "https://secret.example/1", "spans": [SPAN]}
    told = {"attributes": resource, "secretfield": "x"}
    one = {"resource": told, "schemaUrl": "https://secret.example/2", scopes: [spans]}
    return {"resourceSpans": [one], "secretfield": "x"}


@pytest.mark.parametrize("scopes", ["scopeSpans", "instrumentationLibrarySpans", "scope_spans"])
def test_no_text_of_anybodys_is_left_wherever_it_stood(tmp_path: Path, scopes: str) -> None:
    path, out = tmp_path / "x.otlp.jsonl", tmp_path / "copy.otlp.jsonl"
    path.write_text(json.dumps(document(scopes)) + "\n")
    assert main(["export", str(path), str(out), "--redact"]) == 0
    said = out.read_text()
    assert "secret" not in said
    for part in ("10.20.30.40", "2001", "4860", "8888", "16:3e", "deadbeef", "4155550123"):
        assert part not in said
    copy, original = open_trace(out), open_trace(path)
    assert len(copy) == len(original) == 1
    for column in ("start", "end", "span", "trace_hi", "trace_lo", "flags"):
        assert copy.all.columns[column].tolist() == original.all.columns[column].tolist()


def test_what_a_manifest_says_of_a_run_is_counts_and_outcome(tmp_path: Path) -> None:
    manifest = Manifest(
        "secretrun",
        host="secrethost",
        command=["secretcommand"],
        cluster={"worker": {"0": "secret:1"}},
        options={"data": "https://me:secretword@secret.example/"},
        export={"endpoint": "http://secret.example", "error": "secreterror"},
        stopped="spans could not be written: /home/secret",
        error="secreterror",
        steps=7,
    )
    redactor = Redactor(trace_of(tmp_path))
    told = redactor.manifest(manifest)
    assert "secret" not in told.to_json()
    assert (told.steps, told.error, told.stopped) == (7, "redacted", "redacted")


def trace_of(tmp_path: Path) -> Trace:
    path = tmp_path / "x.otlp.jsonl"
    path.write_text(json.dumps(document("scopeSpans")) + "\n")
    return open_trace(path)
