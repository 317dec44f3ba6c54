"""Why a module cannot be captured."""


class CaptureError(ValueError):
    """A module whose step cannot be a graph; the text says what stands in the way."""
