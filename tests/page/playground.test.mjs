// The playground in a real Chromium, against a real gateway ($DIGLOT_BIN) whose agent this test scripts.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { chromium } from "playwright-core";

const BIN = process.env.DIGLOT_BIN ?? path.join(import.meta.dirname, "../../target/debug/diglot");
const SHOTS = process.env.SHOTS ?? path.join(import.meta.dirname, "shots");
const KEY = "sk-playground-test-0123456789";
const SCHEMA = { type: "object", properties: { approved: { type: "boolean" } }, required: ["approved"] };
const LIMIT = { timeout: 60_000 };
/** Messages of a long run, of six events each. */
const MANY = 500;

const folder = mkdtempSync(path.join(os.tmpdir(), "diglot-playground-"));
/** What the agent was sent, and what lets it go on after its first piece of text. */
const received = [];
let goOn = () => {};
let agent;
let gateway;
let browser;
let address;

/** Answers as an AG-UI agent: a greeting, a stream in two halves, or a question and what came of its answer. */
async function answer(request, response) {
  const input = JSON.parse(Buffer.concat(await request.toArray()).toString());
  received.push({ input, headers: request.headers, closed: once(response, "close") });
  const { threadId, runId, messages, resume } = input;
  const write = (event) => response.write(`data: ${JSON.stringify(event)}\n\n`);
  const say = (delta) => write({ type: "TEXT_MESSAGE_CONTENT", messageId: `m-${runId}`, delta });
  response.writeHead(200, { "content-type": "text/event-stream" });
  write({ type: "RUN_STARTED", threadId, runId });
  const text = messages.at(-1)?.content;
  if (text === "delete it" && !resume) {
    const interrupts = [{ id: "i1", reason: "confirmation", message: "Delete the file?", responseSchema: SCHEMA }];
    write({ type: "RUN_FINISHED", threadId, runId, outcome: { type: "interrupt", interrupts } });
    return response.end();
  }
  if (text === "use a tool") {
    write({ type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: "askUser" });
    write({ type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: '{"question":"Which region?"}' });
    write({ type: "TOOL_CALL_END", toolCallId: "c1" });
    write({ type: "RUN_FINISHED", threadId, runId });
    return response.end();
  }
  if (text === "a long run") {
    for (let at = 0; at < MANY; at += 1) {
      write({ type: "TEXT_MESSAGE_START", messageId: `m${at}-${runId}`, role: "assistant" });
      for (const part of ["one", " two", " three", " four"]) write({ type: "TEXT_MESSAGE_CONTENT", messageId: `m${at}-${runId}`, delta: part });
      write({ type: "TEXT_MESSAGE_END", messageId: `m${at}-${runId}` });
    }
    write({ type: "RUN_FINISHED", threadId, runId });
    return response.end();
  }
  const carries = text === "carry this";
  write({ type: "TEXT_MESSAGE_START", messageId: `m-${runId}`, role: "assistant", ...(carries && { metadata: { trace: "7" } }) });
  if (text === "slowly") {
    say("first half, ");
    await new Promise((resolve) => (goOn = resolve));
    say("second half");
  } else if (messages.at(-1)?.role === "tool") {
    say(`result of ${messages.at(-1).toolCallId}: ${text}`);
  } else if (resume) {
    say(`answered: ${JSON.stringify(resume[0].payload)}`);
  } else {
    say(`you said ${messages.filter(({ role }) => role === "user").map(({ content }) => content).join(" and ")}`);
  }
  write({ type: "TEXT_MESSAGE_END", messageId: `m-${runId}`, ...(carries && { metadata: { seen: true } }) });
  write({ type: "RUN_FINISHED", threadId, runId });
  return response.end();
}

before(async () => {
  mkdirSync(SHOTS, { recursive: true });
  agent = createServer(answer);
  await new Promise((resolve) => agent.listen(0, "127.0.0.1", resolve));
  const upstream = `http://127.0.0.1:${agent.address().port}/`;
  const config = path.join(folder, "diglot.yaml");
  const digest = createHash("sha256").update(KEY).digest("hex");
  writeFileSync(config, `
run_dir: ${folder}/run
listeners: {data: "127.0.0.1:0", status: "127.0.0.1:0", inspector: "127.0.0.1:0"}
auth: {api_keys: [{name: partners, keys: [{id: alice, sha256: "${digest}"}]}]}
drain_grace: 0s
drain_timeout: 1s
routes:
  - {name: plain, path: /plain, client: ag-ui, agent: ag-ui, upstream: "${upstream}", auth: none, inspect: full}
  - {name: hai, path: /hai, client: hai, agent: ag-ui, upstream: "${upstream}", auth: none, inspect: full}
  - {name: locked, path: /locked, client: ag-ui, agent: ag-ui, upstream: "${upstream}", inspect: full}
  - {name: lasting, path: /lasting, client: ag-ui, agent: ag-ui, upstream: "${upstream}", auth: none, on_disconnect: continue for 1m}
  - {name: steps, path: /steps, events_path: "/steps/{thread_id}/events", client: social-app, agent: ag-ui, upstream: "${upstream}", auth: none}
  - {name: detected, path: /detected, client: auto, agent: ag-ui, upstream: "${upstream}", auth: none}
`);
  gateway = spawn(BIN, ["serve", "--config", config], { stdio: "ignore" });
  for (let tries = 0; address === undefined; tries += 1) {
    const url = spawnSync(BIN, ["inspect", "url", "--run-dir", `${folder}/run`], { encoding: "utf8" });
    if (url.status === 0) address = url.stdout.trim();
    else if (tries > 100) throw new Error(url.stderr);
    else await setTimeout(100);
  }
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
});

after(async () => {
  await browser?.close();
  gateway?.kill("SIGKILL");
  agent?.closeAllConnections();
  agent?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(route, { width = 1280, dark = false, language = "en-US" } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme: dark ? "dark" : "light", locale: language });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(address);
  await page.waitForSelector(".grid");
  await page.evaluate(() => void (location.hash = "#/playground"));
  await page.locator("#play-route").selectOption(route);
  const close = async () => {
    await context.close();
    assert.deepEqual(problems, []);
  };
  return { page, close };
}

const write = async (page, text) => {
  // A run that is open has shown its text before its end.
  await page.waitForSelector(".composer .buttons button:first-child:enabled");
  await page.locator(".composer textarea").fill(text);
  await page.keyboard.press("Enter");
};
const says = (page, text) => page.locator(".said.assistant", { hasText: text }).waitFor();
const click = (page, name) => page.getByRole("button", { name, exact: true }).click();

test("talks with an agent, which gets the whole conversation", LIMIT, async () => {
  const { page, close } = await open("plain");
  await write(page, "one");
  await says(page, "you said one");
  await write(page, "two");
  await says(page, "you said one and two");
  assert.deepEqual(received.at(-1).input.messages.map(({ role }) => role), ["user", "assistant", "user"]);
  assert.deepEqual(await page.locator(".event-list code").allInnerTexts(),
    ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
  await page.getByRole("link", { name: "See what both sides said" }).click();
  await page.waitForSelector(".run .verdict");
  await page.evaluate(() => void (location.hash = "#/playground"));
  await says(page, "you said one and two");
  await close();
});

test("draws the last of a long run, and what stays as it was only once", LIMIT, async (t) => {
  const { page, close } = await open("plain");
  await write(page, "a long run");
  await page.locator(".play-status", { hasText: "The answer has ended. HTTP 200. 3,002 events." }).waitFor();
  await page.locator(".chat .none", { hasText: `${MANY + 1 - 200} earlier messages` }).waitFor();
  assert.equal(await page.locator(".said").count(), 200);
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  t.diagnostic(`${nodes} elements`);
  assert.ok(nodes < 20_000, `${nodes} elements`);
  await page.locator(".said").last().evaluate((message) => (message.dataset.mark = "drawn once"));
  await write(page, "again");
  await says(page, "you said a long run and again");
  assert.equal(await page.locator(".said[data-mark]").count(), 1);
  await close();
});

test("acts as a client of another dialect", LIMIT, async () => {
  const { page, close } = await open("hai");
  await write(page, "hello");
  await says(page, "you said hello");
  // HAI §3.3.1: text is business data.
  assert.ok((await page.locator(".event-list code").allInnerTexts()).includes("BUSINESS_DATA_CONTENT"));
  await write(page, "again");
  await says(page, "you said hello and again");
  await close();
  // Its events are the answer to a second request.
  const steps = await open("steps");
  await write(steps.page, "hello");
  await says(steps.page, "you said hello");
  await steps.close();
  const other = await open("detected");
  await other.page.getByLabel("Dialect of the client").selectOption("hai");
  await write(other.page, "hello");
  await says(other.page, "you said hello");
  await other.close();
});

test("shows a refusal with its hint, and takes a key that is only in memory", LIMIT, async () => {
  const { page, close } = await open("locked");
  await write(page, "hello");
  await page.locator(".play-status", { hasText: /HTTP 401.*authentication_required.*Send a credential/s }).waitFor();
  const sent = received.length;
  await page.locator(".credentials input").fill(KEY);
  await write(page, "hello again");
  await says(page, "you said hello again");
  assert.equal(received.length, sent + 1);
  await page.getByRole("tab", { name: "Request" }).click();
  assert.ok(!(await page.locator("#play-headers").inputValue()).includes(KEY));
  assert.ok(!(await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href]))).includes(KEY));
  await page.reload();
  await page.locator("#play-route").selectOption("locked");
  assert.equal(await page.locator(".credentials input").inputValue(), "");
  await close();
});

for (const route of ["plain", "hai"]) {
  test(`answers an interrupt (${route})`, LIMIT, async () => {
    const { page, close } = await open(route);
    await write(page, "delete it");
    await page.locator(".interrupt", { hasText: "Delete the file?" }).waitFor();
    if (route === "plain") assert.deepEqual(JSON.parse(await page.locator(".interrupt textarea").inputValue()), { approved: true });
    await page.locator(".interrupt textarea").fill("{approved");
    const warning = page.locator(".interrupt [role=status]");
    assert.equal(await warning.textContent(), "This is no JSON: it is sent as a text, which the form of the answer may not allow.");
    await page.locator(".interrupt textarea").fill('{"approved": true}');
    assert.equal(await warning.textContent(), "");
    await page.locator(".interrupt").getByRole("button", { name: "Answer" }).click();
    await says(page, 'answered: {"approved":true}');
    assert.equal(await page.locator(".interrupt").count(), 0);
    await close();
  });
}

test("keeps what the agent's events carry, as a client does, and leaves out what was refused", LIMIT, async () => {
  const { page, close } = await open("locked");
  await write(page, "too early");
  await page.locator(".said.unsent", { hasText: /not sent.*too early/s }).waitFor();
  await page.locator(".play-status", { hasText: /HTTP 401.*authentication_required/s }).waitFor();
  await page.locator(".credentials input").fill(KEY);
  await write(page, "carry this");
  await says(page, "you said carry this");
  await page.screenshot({ path: path.join(SHOTS, "playground-unsent-1280-light-en.png") });
  await page.getByRole("button", { name: "Send again" }).click();
  await says(page, "you said carry this and too early");
  assert.equal(await page.locator(".said.unsent").count(), 0);
  const { messages } = received.at(-1).input;
  assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant", "user"]);
  assert.deepEqual(messages[1].metadata, { trace: "7", seen: true }, "what START and END carried comes back");
  await close();
});

test("answers a call of a tool that the client has", LIMIT, async () => {
  for (const route of ["plain", "hai"]) {
    const { page, close } = await open(route);
    await write(page, "use a tool");
    await page.locator(".interrupt", { hasText: /askUser.*Which region/s }).waitFor();
    await page.locator(".interrupt textarea").fill("eu-west");
    await page.locator(".interrupt").getByRole("button", { name: "Send the result" }).click();
    await says(page, "result of c1: eu-west");
    assert.equal(await page.locator(".interrupt").count(), 0);
    await close();
  }
});

test("stops a run, whose agent sees its client leave", LIMIT, async () => {
  const { page, close } = await open("plain");
  await write(page, "slowly");
  await says(page, "first half,");
  await click(page, "Stop");
  await received.at(-1).closed;
  await page.locator(".play-status", { hasText: "The connection is closed." }).waitFor();
  await close();
});

test("loses the connection, comes back and misses nothing", LIMIT, async () => {
  const { page, close } = await open("lasting");
  await write(page, "slowly");
  await says(page, "first half,");
  await click(page, "Lose the connection");
  await page.locator(".play-status", { hasText: "The connection is closed." }).waitFor();
  const runs = received.length;
  goOn();
  await click(page, "Come back");
  await says(page, "first half, second half");
  assert.equal(received.length, runs, "one request for one run");
  await page.locator(".event-list code", { hasText: "RUN_FINISHED" }).waitFor();
  const types = await page.locator(".event-list code").allInnerTexts();
  assert.deepEqual(types, ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
  await write(page, "slowly");
  await page.locator(".said.assistant").nth(1).waitFor();
  await click(page, "Stop");
  await page.locator(".event-list code", { hasText: /RUN_(ERROR|FINISHED)/ }).waitFor();
  await received.at(-1).closed;
  await close();
});

test("sends a request that a person wrote", LIMIT, async () => {
  const { page, close } = await open("plain");
  await page.locator(".composer textarea").fill("hello");
  await click(page, "Write the request only");
  await page.getByRole("tab", { name: "Request" }).click();
  const body = page.locator("#play-body");
  await page.waitForFunction(() => document.querySelector("#play-body")?.value !== "");
  await body.fill((await body.inputValue()).replace("hello", "changed by hand"));
  await click(page, "Send this request");
  await says(page, "you said changed by hand");
  await body.fill("{no JSON");
  await click(page, "Send this request");
  await page.locator(".play-status", { hasText: /HTTP 400.*invalid_request/s }).waitFor();
  await close();
});

test("explains a path, and checks the file as it is now", LIMIT, async () => {
  const { page, close } = await open("plain");
  await page.evaluate(() => void (location.hash = "#/throughput"));
  const card = page.locator(".card", { hasText: "What happens to a request" });
  await card.locator("input").fill("/locked");
  await card.getByRole("button", { name: "Explain" }).click();
  await card.locator(".explained", { hasText: /401 authentication_required/ }).waitFor();
  assert.match(await card.locator("table").innerText(), /authenticate.*refuses: authentication_required/s);
  await card.locator("input").fill("/lockd");
  await page.keyboard.press("Enter");
  await card.locator(".explained", { hasText: "did you mean /locked?" }).waitFor();
  await card.locator("input").fill("/plain");
  await page.keyboard.press("Enter");
  await card.locator(".explained", { hasText: /passes, depending on: how many.*Route plain: a run, from ag-ui clients/s }).waitFor();
  const check = page.locator(".card", { hasText: "The configuration file" });
  await check.locator("p", { hasText: "no problem" }).waitFor();
  const file = path.join(folder, "diglot.yaml");
  const good = readFileSync(file, "utf8");
  writeFileSync(file, good.replace("client: hai", "client: hia"));
  await check.getByRole("button", { name: "Check again" }).click();
  await check.locator("p", { hasText: /Error in line 9, .*client.*hai/s }).waitFor();
  await card.scrollIntoViewIfNeeded();
  await page.screenshot({ path: path.join(SHOTS, "config-check-1280-light-en.png") });
  writeFileSync(file, good);
  await page.getByRole("button", { name: "中文" }).click();
  const chinese = page.locator(".card", { hasText: "请求会怎样处理" });
  await chinese.locator("input").fill("/locked");
  await page.keyboard.press("Enter");
  await chinese.locator(".explained", { hasText: /401 authentication_required 请求没有凭据/ }).waitFor();
  await close();
});

test("looks right at both widths, in both languages and colours", LIMIT, async () => {
  for (const [name, options] of Object.entries({
    "playground-1280-light-en": {}, "playground-1280-dark-zh": { dark: true, language: "zh-CN" },
    "playground-800-light-zh": { width: 800, language: "zh-CN" }, "playground-800-dark-en": { width: 800, dark: true },
  })) {
    const { page, close } = await open("locked", options);
    await page.locator(".credentials input").fill(KEY);
    await write(page, "帮我部署 to production, please");
    await says(page, "you said");
    await write(page, "delete it");
    await page.locator(".interrupt").waitFor();
    await page.locator(".event-list summary").first().click();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert.ok(!wide, `${name}: nothing is cut`);
    await page.screenshot({ path: path.join(SHOTS, `${name}.png`) });
    await close();
  }
});
