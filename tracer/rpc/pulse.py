"""Whether a process still answers gRPC's pings, for who waits for it on a socket of another kind.

A process that dies closes its socket, which is seen at once; one that hangs does not. The pings
come from threads of gRPC's own, so a long kernel is no silence.
"""

import time

import grpc

from tracer.rpc.channels import CONNECT_S

LISTEN_S = 1.0  #: how long an answer may take before anyone listens
SILENT = "it answers no ping"


class Pulse:
    """Listens on a channel until `stop`."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._is_ready = self._was_ready = False
        self._deadline = time.monotonic() + CONNECT_S  # if it hung before the first ping
        channel.subscribe(self._changed, try_to_connect=True)

    def _changed(self, state: grpc.ChannelConnectivity) -> None:
        self._is_ready = state is grpc.ChannelConnectivity.READY
        self._was_ready |= self._is_ready

    def is_lost(self) -> bool:
        if self._was_ready:
            return not self._is_ready
        return time.monotonic() > self._deadline

    def stop(self) -> None:
        self._channel.unsubscribe(self._changed)
