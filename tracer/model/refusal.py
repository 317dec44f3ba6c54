"""The base of every error that a user mends by changing the request."""


class Refusal(ValueError):
    """A request that breaks a rule; nothing was started.

    The text says the value, the rule, what is allowed, and the next step. Commands print it and
    exit 2.
    """
