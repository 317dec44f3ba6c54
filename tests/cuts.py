"""What two cuts of one graph have in common, whatever each calls what it adds."""

from collections import Counter
from typing import Any

Row = dict[str, Any]


class Names:
    """Tells the nodes that keep their name from those that a cut numbers."""

    def __init__(self, raw: Row, summary: Row) -> None:
        self._client = {node["name"] for node in raw["client_graph"]}
        self._client |= {row["recv_node"] for row in summary["client_feeds"]}
        self._client |= {row["send_node"] for row in summary["client_fetches"]}
        added = [node for nodes in summary["added_nodes"].values() for node in nodes]
        self._client |= {node["name"] for node in added if node["op"] in ("_Arg", "_Retval")}

    def __call__(self, name: str) -> str:
        if name.startswith("_cloop"):
            return "(control loop)"
        return name if name in self._client and not self._is_numbered(name) else "(numbered)"

    def _is_numbered(self, name: str) -> bool:
        return any(
            name.startswith(f"{other}{mark}") for other in self._client for mark in ("_S", "/_")
        )


def consumers(row: Row, names: Names) -> list[str]:
    return sorted(
        f"{names(c['node'])} {c['op']} {c['input']}<-{c.get('from_port')}" for c in row["consumers"]
    )


def transfers(raw: Row, summary: Row) -> list[Any]:
    fields = ("kind", "send_op", "send_device", "recv_device", "dtype", "recv_ops")
    names = Names(raw, summary)

    def source(text: str) -> str:
        """A node that is cut a second time is a Recv of the first cut."""
        node, _, port = text.lstrip("^").partition(":")
        return f"{names(node)}:{port}"

    return sorted(
        [row[field] for field in fields]
        + [source(row["source"]), consumers(row, names)]
        + [sorted(map(names, row.get("control_consumers", [])))]
        + [[names(name) for name in row["recv_control_inputs"][0]]]
        for row in summary["transfers"]
    )


def added(summary: Row) -> Row:
    return {
        device: Counter(node["op"] for node in nodes)
        for device, nodes in summary["added_nodes"].items()
        if nodes
    }


def client_ends(raw: Row, summary: Row) -> list[Any]:
    names = Names(raw, summary)
    feeds = [
        [row["recv_node"], row["tensor_name"], row["device"], *consumers(row, names)]
        for row in summary["client_feeds"]
    ]
    fetches = [
        [row["send_node"], row["tensor_name"], row["device"], names(row["source"])]
        for row in summary["client_fetches"]
    ]
    return sorted(feeds) + sorted(fetches)


def cut_of(raw: Row, summary: Row) -> Row:
    """All that is the same in two summaries of one graph, that of the golden file `raw`."""
    return {
        "transfers": transfers(raw, summary),
        "client_ends": client_ends(raw, summary),
        "added": added(summary),
        "counts": summary["counts"],
        "dropped": sorted(summary["dropped_client_nodes"]),
    }
