"""Names that tell things apart: where short ones are alike, as much of their paths as it takes."""

from collections import defaultdict
from collections.abc import Iterable, Sequence


def told_apart(names: Sequence[tuple[str, str]]) -> list[str]:
    """Of pairs of a short name and the path that it is of; those of one path keep one name."""
    alike: dict[str, list[int]] = defaultdict(list)
    for at, (name, _) in enumerate(names):
        alike[name].append(at)
    found = [name for name, _ in names]
    for name, places in alike.items():
        paths = {names[at][1] for at in places}
        if name and len(paths) > 1:
            depth = _depth(paths)
            for at in places:
                found[at] = _tail(names[at][1], depth)
    return found


def _depth(paths: Iterable[str]) -> int:
    """How many last parts of some paths tell all of them apart."""
    known = set(paths)
    most = max(path.count("/") for path in known) + 1
    depths = (
        depth for depth in range(1, most) if len({_tail(p, depth) for p in known}) == len(known)
    )
    return next(depths, most)


def _tail(path: str, depth: int) -> str:
    return "/".join(path.split("/")[-depth:])
