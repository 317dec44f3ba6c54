// Where on the graph the items of a replay are: ops on tiles, keys on wires. Pure.

/** A payload of the graph without what the whole step measured: at an instant that is not known. */
export function atAnInstant(payload) {
  const bare = (things, unknown) => things.map((thing) => ({ ...thing, ...unknown }));
  return {
    ...payload,
    boxes: bare(payload.boxes, { busy: null }),
    tiles: bare(payload.tiles, { iterations: 0 }),
    nodes: bare(payload.nodes, { time: 0, wait: 0, queueing: 0, bytes: 0, failed: false }),
    links: bare(payload.links, { bytes: 0 }),
    wires: bare(payload.wires, { bytes: null, wait: 0 }),
  };
}

/** Of every item the place of its tile in `ids` (-1: none), of every key's row its wire.
 *  A name may occur on several devices: then the graph adds the device to it. */
export function tilesAndWires(model, replay) {
  const { item, key } = replay;
  const tileAt = finder(replay, tilesByName(model), ({ task, device }) => `${task}\n${device}`);
  const wireAt = finder(replay, wiresByName(model), ({ task }) => task);
  const ids = model.payload.tiles.map((tile) => tile.id);
  const places = new Map(ids.map((id, at) => [id, at]));
  const tileOf = Int32Array.from(item.kind, (kind, i) => (kind ? -1 : places.get(tileAt(i)) ?? -1));
  const wireOf = Array.from(key.send, (send, row) => wireAt(send) ?? wireAt(key.recv[row]));
  return { ids, tileOf, wireOf };
}

const nameOf = (id) => id.split(" @ ")[0];

function tilesByName(model) {
  const found = new Map();
  for (const { id, box, device, tile } of model.payload.nodes) {
    found.set(`${nameOf(id)}\n${box}\n${device}`, tile);
    if (!found.has(nameOf(id))) found.set(nameOf(id), tile);
  }
  return found;
}

function wiresByName(model) {
  const found = new Map();
  for (const wire of model.payload.wires) {
    for (const part of wire.parts) {
      if (part.send) found.set(`${nameOf(part.send)}\n${wire.from}`, wire.id);
      if (part.recv) found.set(`${nameOf(part.recv)}\n${wire.to}`, wire.id);
    }
  }
  return found;
}

/** Looks an item up by name and place, each pair of them once. */
function finder({ item, names, places }, known, placeText) {
  const seen = new Map();
  return (i) => {
    if (i < 0) return undefined;
    const code = item.name[i] * 65536 + item.place[i];
    if (!seen.has(code)) {
      const name = names[item.name[i]];
      seen.set(code, known.get(`${name}\n${placeText(places[item.place[i]])}`) ?? known.get(name));
    }
    return seen.get(code);
  };
}
