"""What a step would take without what its critical path goes to most."""

from collections.abc import Callable, Iterable

from vizdist.analysis.path_stretches import Stretch
from vizdist.analysis.what_if import Change, WhatIf, changes_of
from vizdist.store.trace import Trace


def longest_changed(
    trace: Trace, told: Iterable[Stretch], tried: Callable[[Change], WhatIf | None]
) -> tuple[int, WhatIf] | None:
    """(its longest span, what the change comes to) of the first of a path that can be changed.

    An op is free, the link of a tensor twice as fast; `tried` runs the step again.
    """
    for stretch in told:
        for span in stretch.spans[:1] if stretch.name else ():
            for change in changes_of(trace, trace.place(span))[:1]:
                if found := tried(change):
                    return span, found
    return None
