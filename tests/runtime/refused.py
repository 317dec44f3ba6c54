"""What a call that must fail fails with."""

from collections.abc import Callable

import pytest

from tracer.runtime.interfaces import StepError


def refused(call: Callable[[], object]) -> StepError:
    with pytest.raises(StepError) as caught:
        call()
    return caught.value
