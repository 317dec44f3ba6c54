// Compare: which runs stand side by side is in the address, and nowhere else.
import { visit } from "./selection.mjs";

/** Callback: the fields of the runs, in order; an empty one is no run. */
export function pick(...fields) {
  const runs = fields.filter(Boolean).join(",");
  if (runs && runs !== new URLSearchParams(location.search).get("runs")) visit({ runs });
}
