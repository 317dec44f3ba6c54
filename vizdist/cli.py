"""The commands serve, report, export, import and demo."""

import argparse
import contextlib
import difflib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from tracer import __version__
from vizdist.arguments import Parser, RequestError, seconds, steps
from vizdist.i18n.printable import printable
from vizdist.store.importers.chrome_json import NS_PER_UNIT
from vizdist.store.library import Library
from vizdist.store.problems import TraceError
from vizdist.store.reading import ReadingLine, told_to
from vizdist.store.trace import open_trace

LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEFAULT_PORT = 8050
TOKEN_VARIABLE = "VIZDIST_TOKEN"
MIN_TOKEN_LETTERS = 16
EXPORT_FORMATS = ("otlp", "perfetto", "csv", "html")
EXPORT_EXAMPLES = """examples:
  vizdist export run.trace run.otlp.jsonl.gz            every span as OTLP/JSON lines
  vizdist export run.trace shared.trace --redact        a folder to show to strangers
  vizdist export run.trace run.json --format perfetto   for ui.perfetto.dev
  vizdist export run.trace run.html --format html       one file for any browser, no server
"""
IMPORT_EXAMPLES = """examples:
  vizdist import host-a.trace host-b.trace -o run.trace   the hosts of one run
  vizdist import kineto.json -o kineto.trace              a file of any format that serve opens
  vizdist import huge.json -o part.trace --between 2.5-3  half a second of a trace that is long
"""
GRACE_S = 10.0  #: what a demo run gets to end by itself after Ctrl-C

#: What `demo` records: a run on parameter servers and the same model on one device.
DEMO_RUNS = {
    "digits-parameter-server": [
        "digits-mlp", "--strategy", "parameter_server_v1", "--ps", "1", "--workers", "2",
        "--steps", "40",
    ],
    "digits-one-device": ["digits-mlp", "--strategy", "one_device", "--steps", "40"],
}  # fmt: skip


def _parser() -> Parser:
    parser = Parser("vizdist", description="See distributed training runs.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serve = commands.add_parser(
        "serve",
        help="show traces in the browser",
        allow_abbrev=False,
        description=run_serve.__doc__,
    )
    serve.add_argument(
        "traces", nargs="*", type=Path, metavar="TRACE",
        help="a trace folder or file, or a folder that holds some (default: this folder)",
    )  # fmt: skip
    _add_server_flags(serve)

    report = commands.add_parser(
        "report", help="print the summary of a trace", allow_abbrev=False,
        description=run_report.__doc__,
    )  # fmt: skip
    report.add_argument("trace", type=Path, metavar="TRACE")
    report.add_argument(
        "--step", type=int, metavar="N", help="which step to split, with each mechanism in it"
    )
    report.add_argument("--json", action="store_true", help="one JSON object instead of sentences")

    _add_export(commands)

    bring = commands.add_parser(
        "import", help="merge the folders of a run's hosts, or make a folder of a foreign file",
        allow_abbrev=False, description=run_import.__doc__, epilog=IMPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    bring.add_argument("traces", nargs="+", type=Path, metavar="FILE")
    bring.add_argument(
        "-o", dest="out", type=Path, required=True, metavar="DIR", help="a folder NAME.trace"
    )
    bring.add_argument(
        "--time-unit", choices=sorted(NS_PER_UNIT), default="us",
        help="of the times in a Chrome trace (default us, as its format says)",
    )  # fmt: skip
    bring.add_argument(
        "--between", type=seconds, metavar="A-B",
        help="only what touches these seconds, counted from where the trace begins (2.5-3)",
    )  # fmt: skip

    demo = commands.add_parser(
        "demo", help="record two small runs, then show them", allow_abbrev=False,
        description=run_demo.__doc__,
    )  # fmt: skip
    _add_server_flags(demo)
    return parser


def _add_export(commands: "argparse._SubParsersAction[Parser]") -> None:
    export = commands.add_parser(
        "export", help="write a trace in another format, or without names", allow_abbrev=False,
        description=run_export.__doc__, epilog=EXPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    export.add_argument("trace", type=Path, metavar="TRACE")
    export.add_argument("out", type=Path, metavar="OUT", help="a file that is not there yet")
    export.add_argument("--format", choices=EXPORT_FORMATS, default="otlp", help="default otlp")
    export.add_argument(
        "--steps", type=steps, metavar="A-B",
        help="which steps an HTML file holds in full (default: those that its Summary speaks of, "
        "and more as far as there is room)",
    )  # fmt: skip
    export.add_argument(
        "--redact", action="store_true",
        help="leave out hosts, addresses, errors, logs and attributes of unknown meaning, and put "
        "pseudonyms in place of the names of nodes",
    )  # fmt: skip


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to serve on; others than loopback need a token"
    )
    parser.add_argument(
        "--token", default=os.environ.get(TOKEN_VARIABLE, ""), metavar="T",
        help=f"what viewers from other machines must show (better told by {TOKEN_VARIABLE}: "
        "other users of this machine can read a command line)",
    )  # fmt: skip
    parser.add_argument("--port", type=int, metavar="P", help=f"default {DEFAULT_PORT}; 0: any")
    parser.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    parser.add_argument("--url-prefix", default="/", metavar="/X", help="path a proxy puts before")


def run_serve(options: argparse.Namespace) -> int:
    """Shows traces in the browser until Ctrl-C: one by its Summary, several as a list."""
    library = Library()
    added = [library.add(_existing(path)) for path in options.traces or [Path.cwd()]]
    for trace_id in filter(None, added):
        library.open(trace_id)
    _serve(library, options, f"t/{added[0]}/summary" if added[0] and not added[1:] else "")
    return 0


def _serve(library: Library, options: argparse.Namespace, page: str = "") -> None:
    import uvicorn  # noqa: PLC0415

    from vizdist.app import create_app  # noqa: PLC0415

    prefix = _prefix(options.url_prefix)
    token = _token(options.host, options.token)
    listener = listen(options.host, options.port)
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}{prefix}{page}"
    app = create_app(library, url_prefix=prefix, viewer_token=token)
    config = uvicorn.Config(
        app, log_level="warning", lifespan="off", access_log=False, timeout_graceful_shutdown=2
    )
    shown = f"{url}?token={token}" if token else url
    print(f"vizdist on {shown}", flush=True)
    if not options.no_browser and _has_display():
        threading.Thread(target=webbrowser.open, args=(shown,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _prefix(text: str) -> str:
    prefix = f"/{text.strip('/')}/".replace("//", "/")
    if any(letter in prefix for letter in "?#%\\ \"'<>") or ".." in prefix:
        raise RequestError(f"--url-prefix {text!r} is no path; it looks like /user/me/proxy/8050")
    return prefix


def _token(host: str, token: str) -> str:
    """What viewers must show; on loopback it is asked for only if it was given."""
    if not token and host not in LOOPBACK:
        raise RequestError(
            f"--host {host} lets other machines in, and there is no token to know them by. Set "
            f"{TOKEN_VARIABLE}, for instance to {secrets.token_urlsafe(18)}, or stay on one of "
            f"{', '.join(LOOPBACK)} and use ssh -L {DEFAULT_PORT}:localhost:{DEFAULT_PORT}"
        )
    if token and not _is_good_token(token):
        raise RequestError(
            f"the token has {len(token)} letters; it needs {MIN_TOKEN_LETTERS} or more, of A-Z a-z "
            f"0-9 _ and -, for instance {secrets.token_urlsafe(18)}"
        )
    return token


def _is_good_token(token: str) -> bool:
    """It goes into addresses and cookies as it is."""
    return re.fullmatch(rf"[\w-]{{{MIN_TOKEN_LETTERS},200}}", token, re.ASCII) is not None


def listen(host: str, port: int | None) -> socket.socket:
    """The listening socket. Without --port the usual one, or a free one where that is taken."""
    if port is not None and not 0 <= port <= 65535:
        raise RequestError(f"--port {port} is outside 0 to 65535; 0 takes any free port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = [DEFAULT_PORT, 0] if port is None else [port]
    for candidate in wanted:
        try:
            return socket.create_server((host, candidate), family=family)
        except OSError as error:
            reason = error.strerror
    raise RequestError(f"port {port} on {host}: {reason}. Choose another, or --port 0 for any")


def _has_display() -> bool:
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def run_report(options: argparse.Namespace) -> int:
    """Prints the summary of a trace: the same sentences and numbers as the Summary page."""
    from vizdist.analysis.report import report_json, report_text  # noqa: PLC0415

    trace = open_trace(_existing(options.trace))
    text = (report_json if options.json else report_text)(trace, options.step)
    print(text.rstrip(), flush=True)
    return 0


def run_import(options: argparse.Namespace) -> int:
    """Makes one trace folder: of the folders of one run, or of one file of any known format."""
    from vizdist.store.exporters import otlp  # noqa: PLC0415
    from vizdist.store.merging import merge_folders  # noqa: PLC0415
    from vizdist.store.redaction import AsItIs  # noqa: PLC0415
    from vizdist.store.time_window import TimeWindow  # noqa: PLC0415

    if options.out.suffix != otlp.FOLDER_SUFFIX:
        raise RequestError(f"-o {options.out}: a trace folder is called NAME{otlp.FOLDER_SUFFIX}")
    _check_free(options.out)
    paths = [_existing(path) for path in options.traces]
    if len(paths) == 1 and (paths[0].is_file() or options.between):
        trace = open_trace(paths[0], time_unit=options.time_unit, max_spans=None)
        window = TimeWindow(trace, *options.between) if options.between else AsItIs()
        num_spans = otlp.write(trace, options.out, window)
    elif options.between:
        raise RequestError("--between cuts one trace; merge the folders first, then cut the merged")
    else:
        num_spans = merge_folders(paths, options.out).written
    print(f"{num_spans:,} spans written to {options.out}", file=sys.stderr, flush=True)
    return 0


def _check_free(out: Path) -> None:
    """Nothing is ever overwritten."""
    if out.exists():
        raise RequestError(f"{out} is there already; name one that is not, or remove it")
    if not out.parent.is_dir():
        raise RequestError(f"there is no folder {out.parent} to write into")


def run_export(options: argparse.Namespace) -> int:
    """Writes a trace in another format: what could be read of it, all times and numbers kept."""
    from vizdist.store.exporters import chrome_json, csv_table, otlp  # noqa: PLC0415
    from vizdist.store.redaction import AsItIs, Redactor  # noqa: PLC0415

    _check_free(options.out)
    if options.format == "html":
        num_spans = _write_html(options)
    elif options.steps:
        raise RequestError(f"--steps belongs to --format html; {options.format} has all steps")
    else:
        write = {"otlp": otlp.write, "perfetto": chrome_json.write, "csv": csv_table.write}
        trace = open_trace(_existing(options.trace))
        redactor = Redactor(trace) if options.redact else AsItIs()
        num_spans = write[options.format](trace, options.out, redactor)
    print(f"{num_spans:,} spans written to {options.out}", file=sys.stderr, flush=True)
    return 0


def _write_html(options: argparse.Namespace) -> int:
    from vizdist.pages.offline import write, write_redacted  # noqa: PLC0415

    library = Library()
    trace_id = library.add(_existing(options.trace))
    if not trace_id:
        raise RequestError(f"{options.trace} is a folder of traces; name one of them")
    write_file = write_redacted if options.redact else write
    return write_file(library, trace_id, options.out, options.steps)


def _existing(path: Path) -> Path:
    """The path itself, or an error with the nearest name beside it."""
    if path.exists():
        return path
    names = [found.name for found in path.parent.iterdir()] if path.parent.is_dir() else []
    match = difflib.get_close_matches(path.name, names, 1, 0.5)
    hint = f"\nDid you mean {path.with_name(match[0])}?" if match else ""
    raise RequestError(f"there is no file or folder {path}{hint}")


def run_demo(options: argparse.Namespace) -> int:
    """Records two small trainings on this machine with `tracer run`, then shows them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "vizdist" / "demo"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name, arguments in DEMO_RUNS.items():
        _record(arguments, folder / f"{name}.trace")
    _serve(Library([folder]), options)
    return 0


def _record(arguments: list[str], out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    print(f"recording {out.stem}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "tracer", "run", *arguments, "--out", str(out), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        raise
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        process.kill()
    if code != 0:
        raise RequestError(f"tracer run for {out.stem} ended with exit code {code}; see above")


COMMANDS = {
    "serve": run_serve,
    "report": run_report,
    "export": run_export,
    "import": run_import,
    "demo": run_demo,
}


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        options = _parser().parse_args(arguments)
        with told_to(ReadingLine()):
            return COMMANDS[options.command](options)
    except (RequestError, TraceError) as error:
        print("\n".join(map(printable, f"vizdist: {error}".split("\n"))), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `| head` has read enough; nothing more can be written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
