"""What was found of a trace is kept while the trace is open, as every view asks again.

The cards of a page ask at once, each from a thread: one of them looks, the others wait for it.
"""

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

from vizdist.store.spans import Spans
from vizdist.store.trace import Trace

Key = TypeVarTuple("Key")
Found = TypeVar("Found")
_Find = Callable[[Trace, *Key], Found]


class _Answers(dict[tuple[*Key], Found]):
    """Of one trace."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = Lock()


def kept(most: int = 1) -> Callable[[_Find[*Key, Found]], _Find[*Key, Found]]:
    """Of every trace the last answers, so many at most.

    An answer must not refer to its trace, which else is never let go.
    """

    def keeping(find: _Find[*Key, Found]) -> _Find[*Key, Found]:
        known: WeakKeyDictionary[Spans, _Answers[*Key, Found]] = WeakKeyDictionary()
        opening = Lock()

        @wraps(find)
        def found(trace: Trace, *key: *Key) -> Found:
            with opening:
                answers = known.setdefault(trace.all, _Answers())
            with answers.lock:
                if key not in answers:
                    answer = find(trace, *key)
                    if len(answers) == most:
                        del answers[next(iter(answers))]
                    answers[key] = answer
                return answers[key]

        return found

    return keeping
