"""Random numbers of a step: from one seed that is fed, never from a process's own generator.

A step that draws (Dropout) has a third feed, `seed:0`. The first op that draws starts a generator
from it and hands the generator's state on to the next one, along an ordinary edge. So what a step
draws follows from its seed alone: not from threads, other steps, other graphs of the same module,
or a restart; and it is what eager torch draws after `torch.manual_seed(seed)` before the step.
"""

_MASK = (1 << 64) - 1


def step_seed(seed: int, replica: int, step: int) -> int:
    """The seed of one step of one replica, from that of the run.

    Also its lower half tells all steps of a run apart, which is what torch's CPU generator takes.
    """
    mixed = _mix(_mix(_mix(seed) ^ replica) ^ step)
    return mixed >> 1


def _mix(value: int) -> int:
    """Splitmix64's finalizer: every bit of the input moves every bit of the output."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
