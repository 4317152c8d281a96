// The real AG-UI client in a real browser, on pages of other origins than the gateway's (`cors` of a route).
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { serve, startAgent } from "./support/diglot.mjs";

const KEY = "example-key-of-a-page";
const EXECUTABLE = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** The script of the page: the client's own package, bundled. */
async function bundle() {
  const stdin = { contents: 'export { HttpAgent } from "@ag-ui/client";', resolveDir: import.meta.dirname };
  const { outputFiles } = await build({ stdin, bundle: true, format: "iife", globalName: "agui", platform: "browser", write: false });
  return outputFiles[0].text;
}

/** Serves an empty page with the client on it, at two origins: 127.0.0.1 and localhost. */
async function startPages() {
  const script = await bundle();
  const server = createServer((request, response) => {
    const isScript = request.url === "/client.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : '<!doctype html><script src="/client.js"></script>');
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  return { known: `http://127.0.0.1:${port}`, foreign: `http://localhost:${port}`, stop: () => server.close() };
}

let agent;
let pages;
let gateway;
let browser;

before(async () => {
  agent = await startAgent("hai", 0);
  pages = await startPages();
  gateway = await serve(`auth:
  api_keys: [{name: pages, header: authorization, keys: [{id: page, sha256: ${createHash("sha256").update(KEY).digest("hex")}}]}]
routes:
  - path: /r
    client: ag-ui
    agent: hai
    upstream: "${agent.url}"
    cors: {origins: "${pages.known}"}
`);
  browser = await chromium.launch({ executablePath: EXECUTABLE, args: FLAGS });
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
  pages?.stop();
  await agent?.stop();
});

/** Runs the client on a page of `origin`; returns its events, or the error. */
async function runOn(origin, key) {
  const page = await browser.newPage();
  try {
    await page.goto(origin);
    return await page.evaluate(
      async ({ url, key }) => {
        const headers = key ? { Authorization: `Bearer ${key}` } : {};
        const client = new agui.HttpAgent({ url, headers, initialMessages: [{ id: "u1", role: "user", content: "hi" }] });
        const types = [];
        try {
          await client.runAgent({}, { onEvent: ({ event }) => void types.push(event.type) });
        } catch (error) {
          return { types, failed: String(error) };
        }
        return { types };
      },
      { url: `${gateway.url}/r`, key },
    );
  } finally {
    await page.close();
  }
}

test("lets a page of an allowed origin run the agent", { timeout: 60_000 }, async () => {
  const { types, failed } = await runOn(pages.known, KEY);
  assert.equal(failed, undefined);
  assert.deepEqual([types[0], types.at(-1)], ["RUN_STARTED", "RUN_FINISHED"]);
});

test("blocks a page of another origin even with a valid key", { timeout: 60_000 }, async () => {
  const { types, failed } = await runOn(pages.foreign, KEY);
  assert.deepEqual(types, []);
  assert.match(failed, /Failed to fetch/);
});

test("lets the page read a refusal, its request id and its challenge", { timeout: 60_000 }, async () => {
  const page = await browser.newPage();
  await page.goto(pages.known);
  const answer = await page.evaluate(async (url) => {
    const response = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    const [id, challenge] = ["x-request-id", "www-authenticate"].map((name) => response.headers.get(name));
    return { status: response.status, code: (await response.json()).code, id, challenge };
  }, `${gateway.url}/r`);
  await page.close();
  assert.deepEqual([answer.status, answer.code], [401, "authentication_required"]);
  assert.ok(answer.id.length > 0 && answer.challenge.startsWith("Bearer"), JSON.stringify(answer));
});
