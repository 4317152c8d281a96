// The real AG-UI client with a gateway that requires keys and limits requests.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import { runOnce } from "./support/ag-ui-client.mjs";
import { GREETING } from "./support/conversation.mjs";
import { serve, startAgent } from "./support/diglot.mjs";

const KEY = "example-key-of-a-test";
const SHA256 = createHash("sha256").update(KEY).digest("hex");

let agent;
let gateway;

before(async () => {
  agent = await startAgent("hai", 0);
  const route = (path, more) => `
  - path: ${path}
    client: ag-ui
    agent: hai
    upstream: "${agent.url}"
    ${more}`;
  gateway = await serve(`auth:
  api_keys:
    - name: partners
      header: authorization
      keys: [{id: one, sha256: ${SHA256}}]
rate_limits:
  - {name: twice, requests: 2, per: 1h}
routes:${route("/http", "errors: http")}${route("/run-error", "errors: run_error")}${route("/twice", "rate_limits: [twice]\n    errors: run_error")}
`);
});

after(async () => {
  await gateway.stop();
  await agent.stop();
});

const clientOf = (path, key) =>
  new HttpAgent({
    url: gateway.url + path,
    threadId: "thread-1",
    initialMessages: [GREETING],
    headers: key ? { Authorization: `Bearer ${key}` } : {},
  });

test("runs a caller that sends its key", async () => {
  const run = await runOnce(clientOf("/http", KEY), "run-1");
  assert.equal(run.types[0], "RUN_STARTED");
  assert.equal(run.types.at(-1), "RUN_FINISHED");
  assert.deepEqual([run.errors, run.warnings], [[], []]);
});

test("answers 401 to a client without a key", async () => {
  await assert.rejects(runOnce(clientOf("/http"), "run-1"), (error) => {
    assert.match(String(error.message), /401/);
    return true;
  });
});

test("with `errors: run_error`, answers a refused client with a RUN_ERROR event", async () => {
  for (const [key, code] of [
    [undefined, "authentication_required"],
    ["another-key", "invalid_token"],
  ]) {
    const run = await runOnce(clientOf("/run-error", key), "run-1");
    assert.deepEqual([run.types, run.warnings], [["RUN_ERROR"], []]);
    assert.equal(run.errors[0].code, code);
    assert.ok(run.errors[0].message.length > 0);
  }
});

test("refuses the third of two allowed requests and names the limit", async () => {
  for (const id of ["run-1", "run-2"]) {
    const run = await runOnce(clientOf("/twice", KEY), id);
    assert.equal(run.types.at(-1), "RUN_FINISHED");
  }
  const run = await runOnce(clientOf("/twice", KEY), "run-3");
  assert.deepEqual(run.types, ["RUN_ERROR"]);
  assert.equal(run.errors[0].code, "rate_limited");
  assert.match(run.errors[0].message, /twice/);
});

test("logs no key", () => {
  const said = gateway.printed.join("\n");
  assert.match(said, /"subject":"one"/);
  assert.ok(!said.includes(KEY) && !said.includes("another-key") && !said.includes(SHA256), said);
});
