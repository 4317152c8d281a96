// The real clients join a run late, after each of its frames: the events that they receive (tests/golden/recap) give
// them the same result as the whole run. The client of 1.0.0 reports no warnings, and waits for the same tools.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, mock, test } from "node:test";
import { hear, startBodies, VERSIONS } from "./support/old-clients.mjs";

const read = (name) => readFileSync(new URL(`../golden/recap/${name}`, import.meta.url), "utf8");

/** The frames of a run, and the prelude in place of the first `cut` of them. */
function corpus(name) {
  const frames = read(`${name}/heard.sse`).split("\n\n").filter(Boolean);
  const parts = read(`${name}/preludes.sse`).split(/^: cut (\d+)\n\n/m).slice(1);
  const preludes = Array.from({ length: parts.length / 2 }, (_, at) => ({ cut: Number(parts[2 * at]), prelude: parts[2 * at + 1] }));
  assert.equal(preludes.length, frames.length);
  const wire = (from) => frames.slice(from).map((frame) => `${frame}\n\n`).join("");
  return {
    messages: JSON.parse(read(`${name}/messages.json`)),
    whole: wire(0),
    joined: preludes.map(({ cut, prelude }) => ({ cut, body: prelude + wire(cut) })),
  };
}

let bodies;
before(async () => (bodies = await startBodies()));
after(() => bodies?.stop());

/** The state of a client after a run, and its warnings. */
async function has(version, body, messages) {
  const warnings = [];
  const spies = ["warn", "error"].map((level) => mock.method(console, level, (...words) => warnings.push(words.map(String).join(" "))));
  try {
    const { refused, messages: now, state, events } = await hear(version, bodies.add(body), { threadId: "t1", messages });
    return { refused, messages: now, state, last: events.at(-1), warnings };
  } finally {
    spies.forEach((spy) => spy.mock.restore());
  }
}

// Until 0.0.53 a call is a separate message, a second one with its parent's id unless that is the last message; and a
// result is the last message. A snapshot has the form of later versions: the same texts, calls and results in fewer
// messages.
const OWN_ORDER = ["0.0.35", "0.0.39", "0.0.42", "0.0.45", "0.0.47", "0.0.53"];

/** Texts, calls and results, whichever message they are in. */
const facts = (messages) =>
  messages
    .flatMap(({ id, role, content, toolCallId, toolCalls }) => [
      ...(content ? [JSON.stringify([role, id, content, toolCallId])] : []),
      ...(toolCalls ?? []).map((call) => JSON.stringify([call.id, call.function.name, call.function.arguments])),
    ])
    .sort();

async function law(version, name) {
  const { messages, whole, joined } = corpus(name);
  const seen = async (body, held) => {
    const all = await has(version, body, held);
    return OWN_ORDER.includes(version) ? { ...all, messages: facts(all.messages) } : all;
  };
  const expected = await seen(whole, messages);
  assert.equal(expected.refused, undefined);
  for (const { cut, body } of joined) {
    for (const held of [messages, []]) {
      assert.deepEqual(await seen(body, held), expected, `${version} joins ${name} behind frame ${cut}`);
    }
  }
}

test("a 1.0.0 client that joins late gets what the others have", { timeout: 120_000 }, () => law("1.0.0", "ag-ui/everything"));

for (const version of VERSIONS) {
  test(`a ${version} client that joins late gets what the others have`, { timeout: 120_000 }, () => law(version, "ag-ui-0/everything"));
}
