// For tests/analysis/test_replay.py: the frames of a replay at some instants, as JSON.
// node replay_frames.mjs REPLAY < JSON list of ns
import { readFileSync } from "node:fs";
import { STATES, decode, frame, keyText, spanOf } from "../../assets/replay_model.mjs";

const bytes = readFileSync(process.argv[2]);
const replay = decode(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
const frames = JSON.parse(readFileSync(0, "utf8")).map((time) => {
  const now = frame(replay, time);
  const keys = [...now.states].map((state, row) => [keyText(replay, row), STATES[state]]);
  return {
    count: now.count, keys: keys.filter(([, state]) => state !== "none").sort(),
    running: now.running.map((i) => spanOf(replay, i)).sort(),
    ready: now.ready.map((i) => spanOf(replay, i)).sort(),
  };
});
process.stdout.write(JSON.stringify(frames));
