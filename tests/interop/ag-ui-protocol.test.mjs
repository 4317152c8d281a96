// The Python side of AG-UI reads the output of the gateway: ag-ui-protocol 1.0.0 and 0.1.x parse the requests to agents
// and the events to clients, and ag-ui-validate finds no errors in the streams.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { agentStreams, clientRequests, eventTexts, expectedRequests, faultyRequests, inParallel, translate } from "./support/recordings.mjs";
import { ask } from "./support/python.mjs";

const LIMIT = { timeout: 300_000 };

/** The oldest that is still served, three at which the unions grew, the last before 1.0. */
const OLD_VERSIONS = ["0.1.5", "0.1.8", "0.1.10", "0.1.15", "0.1.19", "0.1.22"];

/**
 * Streams of the corpus that the Python package 1.0.0 rejects although the real client accepts them, and the reasons
 * why the gateway passes them on. The client drops members of later AG-UI versions with a warning.
 */
const BEYOND_PYTHON = {
  "ag-ui-to-ag-ui-0.pin=0-0-59/subagent-outcomes": "an outcome of a later version",
  "ag-ui-to-ag-ui-0/unknown-roles-and-types": "a role of a later version",
  "conformance/lone-surrogate-escape": "half a surrogate pair is legal in JSON; strings keep their bytes",
  "conformance/messages-snapshot-binary-converted": "a part of AG-UI 0, which the client converts",
  "conformance/messages-snapshot-binary-id-only": "the same",
  "conformance/messages-snapshot-unknown-role": "a role of a later version",
  "conformance/state-delta-unknown-op": "a patch operation of a later version",
  "conformance/subagent-unknown-outcome": "an outcome of a later version",
  "conformance/tool-result-unknown-source": "a source of a later version",
};

// Half a surrogate pair again. As a reader of events 0.1.8 refuses every member that it does not know, so also the
// metadata in which the gateway carries what it has no word for; and 0.1.5 knows no tool results.
const BEYOND_OLD_PYTHON = ({ name, error }) =>
  name.startsWith("conformance/lone-surrogate-escape ") || /Extra inputs are not permitted$/.test(error);
const READS_NO_EVENTS = new Set(["0.1.5"]);

// 0.1.8 and older refuse members and parts that their types do not have; from 0.1.10 on the pin is not needed for requests.
const PINNED = "ag-ui-0:pin=0.1";
const TAKES_ANY = new Set(["0.1.10", "0.1.15", "0.1.19", "0.1.22"]);

const parse = (version, documents) => ask("parse.py", [`ag-ui-protocol-${version}`, "pydantic"], documents);

/** Every request of the corpus, or of `requests`, as it goes to an agent of `dialect`. */
const requestsTo = async (dialect, requests = clientRequests()) => {
  const all = await inParallel(requests, async (it) => ({
    name: `${it.name} (${it.from} to ${dialect})`,
    kind: "request",
    text: await translate({ ...it, to: dialect, request: true }),
  }));
  return all.filter(({ text }) => text !== undefined);
};

/** Every stream of the corpus as it goes to a client of `dialect`. */
const streamsTo = (dialect) =>
  inParallel(agentStreams(), async (it) => ({
    name: `${it.name} (${it.from} to ${dialect})`,
    events: eventTexts(await translate({ ...it, to: dialect })),
  }));

const documentsOf = (streams) =>
  streams.flatMap(({ name, events }) => events.map((text, at) => ({ name: `${name} event ${at} ${text.slice(0, 120)}`, kind: "event", text })));

describe("ag-ui-protocol 1.0.0", () => {
  test("parses every request", LIMIT, async () => {
    assert.deepEqual(await parse("1.0.0", await requestsTo("ag-ui")), []);
  });
  test("parses every request that the golden cases expect", LIMIT, async () => {
    const requests = expectedRequests("ag-ui").map((it) => ({ ...it, kind: "request" }));
    assert.ok(requests.length >= 50, `only ${requests.length}`);
    assert.deepEqual(await parse("1.0.0", requests), []);
  });
  test("parses requests in which clients send values of the wrong type", LIMIT, async () => {
    const requests = await requestsTo("ag-ui", faultyRequests(600));
    assert.ok(requests.length >= 200, `only ${requests.length} were not refused`);
    assert.deepEqual(await parse("1.0.0", requests), []);
  });
  test("parses every event", LIMIT, async () => {
    const refused = await parse("1.0.0", documentsOf(await streamsTo("ag-ui")));
    assert.deepEqual(refused.filter(({ name }) => !(name.split(" ")[0] in BEYOND_PYTHON)), []);
    assert.deepEqual([...new Set(refused.map(({ name }) => name.split(" ")[0]))].sort(), Object.keys(BEYOND_PYTHON));
  });
});

describe("older ag-ui-protocol", () => {
  const requests = {};
  let events;
  for (const version of OLD_VERSIONS) {
    for (const dialect of TAKES_ANY.has(version) ? ["ag-ui-0", PINNED] : [PINNED]) {
      test(`${version} parses every request to an agent of ${dialect}`, LIMIT, async () => {
        requests[dialect] ??= await requestsTo(dialect);
        assert.deepEqual(await parse(version, requests[dialect]), []);
      });
    }
    if (READS_NO_EVENTS.has(version)) continue;
    test(`${version} parses every event to an older client`, LIMIT, async () => {
      events ??= documentsOf(await streamsTo(PINNED));
      assert.deepEqual((await parse(version, events)).filter((one) => !BEYOND_OLD_PYTHON(one)), []);
    });
  }
});

describe("ag-ui-validate", () => {
  const validate = (streams) => ask("validate.py", ["ag-ui-validate"], streams);
  const errorsOf = (answers) => answers.flatMap(({ name, errors }) => errors.map((error) => `${name}: ${error}`));

  // Every example of a stream in the HAI specification (seed 000).
  const isExample = ({ name }) => /^hai-to-ag-ui\/(3-3|4-2)-/.test(name);
  const examples = async (dialect) => (await streamsTo(dialect)).filter(isExample);

  test("finds no error in the translated examples of the HAI specification", LIMIT, async () => {
    const streams = await examples("ag-ui");
    assert.ok(streams.length >= 8, `only ${streams.length}`);
    assert.deepEqual(errorsOf(await validate(streams)), []);
  });

  test("finds no error in them as translated for older clients", LIMIT, async () => {
    assert.deepEqual(errorsOf(await validate(await examples("ag-ui-0"))), []);
  });

  // It has the rules of AG-UI 0.1.21 and some of its own, where the real client of 1.0 takes more (specs §3.3).
  const STRICTER = {
    "a result in parts came with 1.0": /AGUI504: TOOL_CALL_RESULT: field 'content' must be a string/,
    "a result for a call that another run made": /AGUI207/,
    "a message or call that goes on after its end": /AGUI(101|102|104|202|205)/,
    "a call that starts again after its end": /call-starts-again .*AGUI201/,
    "arguments that are no JSON are the agent's": /AGUI204/,
    "an operation of a later version": /AGUI303: .* invalid op 'merge'/,
    "RAW closes no chunk": /AGUI504: TEXT_MESSAGE_CHUNK: first TEXT_MESSAGE_CHUNK/,
    "a run may begin with RUN_ERROR": /AGUI001: First event of the run is RUN_ERROR/,
  };
  for (const dialect of ["ag-ui", "ag-ui-0"]) {
    test(`finds nothing in the whole corpus that the client rejects, ${dialect}`, LIMIT, async () => {
      const errors = errorsOf(await validate(await streamsTo(dialect)));
      assert.deepEqual(errors.filter((error) => !Object.values(STRICTER).some((rule) => rule.test(error))), []);
    });
  }

  test("finds errors in the stream of HAI's own sample backend", LIMIT, async (context) => {
    const sample = new URL("../golden/stream/hai-to-ag-ui/4-2-chat-agent/input.sse", import.meta.url);
    const [{ errors }] = await validate([{ name: "sample", events: eventTexts(readFileSync(sample, "utf8")) }]);
    context.diagnostic(`ag-ui-validate finds ${errors.length} errors in HAI's own sample stream`);
    assert.ok(errors.length > 0);
  });
});
