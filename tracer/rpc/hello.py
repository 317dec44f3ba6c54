"""How a stream begins: each side says who it is, the server first."""

import msgspec

from tracer.rpc.frames import HELLO, Buffer, FrameError, first_frame, small_frame
from tracer.rpc.messages import Hello, decode, encode


def hello_message(hello: Hello) -> bytes:
    text = encode(hello)
    return b"".join(small_frame(HELLO, 0, ([text], len(text)))[0])


def read_hello(message: Buffer) -> Hello:
    """Raises FrameError if the first message of a stream is something else."""
    if not isinstance(message, bytes):  # gRPC's mark of an end
        raise FrameError("the stream ended before its Hello")
    kind, payload = first_frame(message)
    if kind != HELLO:
        raise FrameError(f"a stream must begin with Hello, not with a frame of kind {kind}")
    try:
        return decode(Hello, payload)
    except msgspec.DecodeError as error:
        raise FrameError(f"the Hello of a stream cannot be read: {error}") from None


def check_task(hello: Hello, wanted: str) -> None:
    """Raises FrameError if another task answers at an address."""
    if hello.task != wanted:
        raise FrameError(
            f"this is {hello.task}, not {wanted}; the two sides have different cluster descriptions"
        )
