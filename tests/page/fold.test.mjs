// Holds the page's fold against the reducer of the real AG-UI client, over what the gateway writes in the golden cases.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ClientFold } from "../../src/admin/page/client_fold.mjs";

const CLIENT = path.join(import.meta.dirname, "../interop/node_modules/@ag-ui/client/dist/index.mjs");
const RXJS = path.join(import.meta.dirname, "../interop/node_modules/rxjs/dist/cjs/index.js");
const GOLDEN = path.join(import.meta.dirname, "../golden/stream");

/** Returns the events of each expected stream for AG-UI 1.0 clients. */
function* goldenStreams() {
  for (const pair of readdirSync(GOLDEN).filter((name) => name.endsWith("-to-ag-ui"))) {
    for (const name of readdirSync(path.join(GOLDEN, pair))) {
      const file = path.join(GOLDEN, pair, name, "expected.sse");
      if (!existsSync(file)) continue;
      const frames = readFileSync(file, "utf8").split("\n").filter((line) => line.startsWith("data: "));
      yield { name: `${pair}/${name}`, events: frames.map((line) => JSON.parse(line.slice(6))) };
    }
  }
}

/** Leaves out members that are undefined: as JSON, in which both clients send it, they are absent. */
const asSent = (value) => JSON.parse(JSON.stringify(value));

test("computes what the real client holds", { skip: !existsSync(CLIENT) && "run npm ci in tests/interop first" }, async (t) => {
  const { defaultApplyEvents } = await import(CLIENT);
  const { from } = (await import(RXJS)).default;
  const warn = console.warn;
  console.warn = () => {};
  let compared = 0;
  for (const { name, events } of goldenStreams()) {
    const known = { messages: [], state: {} };
    const mutations = defaultApplyEvents({ messages: [], state: {} }, from(events), { messages: [] }, []);
    const failed = await new Promise((resolve) => mutations.subscribe({ next: (change) => Object.assign(known, change), error: resolve, complete: resolve }));
    const fold = new ClientFold();
    for (const event of events) fold.apply(event);
    // The reducer does not take chunks, and the fold says that it does not know them.
    if (failed !== undefined) assert.ok(fold.problems.length > 0, `${name}: ${failed}`);
    else assert.deepEqual(asSent({ messages: fold.messages, state: fold.state }), asSent(known), name);
    compared += 1;
  }
  console.warn = warn;
  t.diagnostic(`${compared} streams`);
  assert.ok(compared > 50);
});
