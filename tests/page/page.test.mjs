// The page in a real Chromium: against `serve.mjs`, or against a gateway at $BASE_URL with $TOKEN (then only what any
// gateway can show). Screenshots of each view are left in $SHOTS (tests/page/shots).
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { LONG_RUN, STORY_IDS } from "./fixtures.mjs";
import { startServer } from "./serve.mjs";

const EXECUTABLE = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const SHOTS = process.env.SHOTS ?? path.join(import.meta.dirname, "shots");
const GATEWAY = process.env.BASE_URL;
const FRAME_MS = 100;
/** The gate is wider than the goal, because machines that test are slow. */
const FRAME_LIMIT_MS = 250;
const WITH_FIXTURES = { skip: GATEWAY !== undefined && "needs the data of serve.mjs", timeout: 120_000 };

let server;
let browser;

before(async () => {
  mkdirSync(SHOTS, { recursive: true });
  server = GATEWAY === undefined ? await startServer() : { url: GATEWAY, token: process.env.TOKEN ?? "", stop() {} };
  browser = await chromium.launch({ executablePath: EXECUTABLE, args: FLAGS });
});

after(async () => {
  await browser?.close();
  server?.stop();
});

/** Opens the page at a place; every error and every violation of the policy fails the test. */
async function open(place = "", { width = 1280, dark = false, language = "en-US", from = server } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme: dark ? "dark" : "light", locale: language });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("dialog", (dialog) => problems.push(`dialog: ${dialog.message()}`));
  await page.goto(`${from.url}/#token=${from.token}`);
  await page.waitForFunction(() => document.querySelector(".grid") !== null);
  if (place !== "") await page.evaluate((to) => void (location.hash = to), place);
  const close = async () => {
    await context.close();
    assert.deepEqual(problems, []);
  };
  return { page, close };
}

const textOf = (page, selector) => page.locator(selector).innerText();

/** Waits until the element shows a text that matches: the page draws after it has answered a key or loaded what it needs. */
async function shows(page, selector, pattern, about) {
  const limit = Date.now() + 20_000;
  let text = await textOf(page, selector);
  while (!pattern.test(text) && Date.now() < limit) {
    await page.waitForTimeout(20);
    text = await textOf(page, selector);
  }
  assert.match(text, pattern, about);
}

/**
 * Returns the longest time that the page's main thread worked for one of many steps. That is its own time, not the
 * clock's, so that other programs on the machine do not count.
 */
async function longestStep(page, steps) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const worked = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  let longest = 0;
  for (const step of steps) {
    const before = await worked();
    await step();
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    longest = Math.max(longest, (await worked()) - before);
  }
  await session.detach();
  return longest * 1_000;
}

/** Scrolls a list from end to end. */
function scrollSteps(page) {
  return Array.from({ length: 40 }, (_, at) => () => page.evaluate((share) => {
    const scroller = document.querySelector(".scroller");
    scroller.scrollTop = scroller.scrollHeight * share;
  }, (at + 1) / 40));
}

/** Types a filter. */
function typeSteps(page, selector, text) {
  return [() => page.locator(selector).focus(), ...Array.from(text, (key) => () => page.keyboard.type(key))];
}

function checkFrames(t, what, longest) {
  t.diagnostic(`${what}: most work for one frame ${longest.toFixed(1)} ms (goal ${FRAME_MS} ms)`);
  assert.ok(longest < FRAME_LIMIT_MS, `${what}: ${longest} ms`);
}

test("takes the token out of the address and keeps it", { timeout: 60_000 }, async () => {
  const { page, close } = await open();
  assert.ok(!page.url().includes("token"), page.url());
  await page.reload();
  await page.waitForFunction(() => document.querySelector(".grid") !== null);
  assert.equal(await textOf(page, ".banner"), "");
  await close();
});

test("lists all runs, and follows changes until paused", WITH_FIXTURES, async () => {
  const { page, close } = await open();
  await page.waitForFunction(() => document.querySelector(".status").textContent.startsWith("5,001 of 5,001"));
  await shows(page, ".space [role=row][aria-rowindex='2']", /running/);
  const before = await textOf(page, "[aria-rowindex='2'] .c-events_in");
  await page.waitForFunction((was) => document.querySelector("[aria-rowindex='2'] .c-events_in").innerText !== was, before);
  await page.keyboard.press("p");
  await shows(page, ".tools .status", /paused/);
  await close();
});

test("filters with completion, sorts, and opens a run with the keyboard", WITH_FIXTURES, async () => {
  const { page, close } = await open();
  await page.waitForFunction(() => document.querySelector(".status").textContent.includes("5,001 runs"));
  await page.keyboard.press("/");
  await page.keyboard.type("outc");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.keyboard.type("fail");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("#run-filter").inputValue(), "outcome:failed ");
  await page.keyboard.type("rute:chat");
  await shows(page, ".filter .unknown", /^There is no key rute, .* The keys are route, outcome, /);
  for (const _ of "rute:chat") await page.keyboard.press("Backspace");
  await shows(page, ".filter .unknown", /^$/);
  await page.keyboard.type("code:upstream_* type:TOOL_*");
  await shows(page, ".tools .status", /^1 of 5,001 runs/);
  await page.keyboard.press("Enter");
  // Without a selected run, the first.
  await page.keyboard.press("Enter");
  await page.waitForSelector(".run .verdict");
  // The terms for rows came along.
  assert.equal(await page.locator("#row-filter").inputValue(), "type:TOOL_*");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".runs");
  await page.getByRole("button", { name: "Losses" }).click();
  assert.equal(await page.locator(".c-losses[role=columnheader]").getAttribute("aria-sort"), "descending");
  await close();
});

test("says why a run broke, in a sentence, with the row", WITH_FIXTURES, async () => {
  const causes = {
    truncated: /The agent ended without RUN_FINISHED\. The gateway wrote RUN_ERROR upstream_truncated at row 12/,
    "call without end": /closer_supplied: an item was still open/,
    "other ids": /ids_replaced: the agent used another thread or run id/,
    "wrong dialect": /are of another dialect than hai: agent of the route is probably wrong/,
    "after the end": /after_terminal: an event followed the end of the run/,
    "slow first byte": /The agent took 9\.24 s to its first event/,
    "huge state": /The largest event has 10\.0 MB: STATE_SNAPSHOT at row 2/,
    refused: /The agent refused the request.*The agent answered with the status 401/,
    "hung call": /closed the connection after the agent had sent nothing for 42\.00 s\..*Still open when the client left: the call c1 \(weather\) of row 5\./s,
    limit: /The run reached a limit of the route\. The gateway wrote RUN_ERROR run_limit_reached/,
  };
  const { page, close } = await open();
  for (const [story, cause] of Object.entries(causes)) {
    await page.evaluate((id) => void (location.hash = `#/run/${id}`), STORY_IDS[story]);
    await page.waitForFunction((id) => location.hash === `#/run/${id}` && document.querySelector(".row-line[aria-selected=true]"), STORY_IDS[story]);
    assert.match(await textOf(page, ".verdict"), cause, story);
  }
  await close();
});

test("explains a row, its members, its bytes and what the client holds", WITH_FIXTURES, async () => {
  const { page, close } = await open(`#/run/${STORY_IDS.truncated}`);
  await page.waitForSelector(".row-line[aria-selected=true]");
  await page.keyboard.press("/");
  await page.keyboard.type("type:TEXT_*");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".events .status").textContent.startsWith("4 lines"));
  await page.locator(".row-line.split.first").click();
  await shows(page, ".detail .panel", /several for the client.*TEXT_MESSAGE_START, TEXT_MESSAGE_CONTENT/s);
  await shows(page, ".detail .panel", /Kept for the next runs of the thread: session = "s-81"\./);
  await page.keyboard.press("r");
  await shows(page, ".detail .panel", /"type":"BUSINESS_DATA_CONTENT"/);
  await page.keyboard.press("m");
  await shows(page, ".detail .panel", /What the agent holds.*Speaks hai.*好的.*What the client holds.*user u1.*部署应用 please <b>now<\/b>.*"status": "running"/s);
  await page.keyboard.press("m");
  await page.getByRole("button", { name: "row 4" }).click();
  await shows(page, ".detail .panel", /The client got it with row 5/);
  await close();
});

test("compares ids digit by digit", WITH_FIXTURES, async () => {
  const { page, close } = await open(`#/run/${STORY_IDS.hostile}`);
  await page.waitForSelector(".row-line[aria-selected=true]");
  await page.locator(".row-line").filter({ hasText: "CUSTOM" }).click();
  await shows(page, ".members", /changed\s+id\s+12345678901234567891\s+12345678901234567000/);
  await close();
});

test("draws nothing of what a hostile agent says", WITH_FIXTURES, async () => {
  const { page, close } = await open(`#/run/${STORY_IDS.hostile}`);
  await page.waitForSelector(".row-line[aria-selected=true]");
  /** Returns all texts that are drawn or read out, and what they did. */
  const drawn = () => page.evaluate(() => {
    const attributes = [...document.querySelectorAll("*")].flatMap((one) => [...one.attributes].map(({ value }) => value));
    const fields = [...document.querySelectorAll("textarea")].map(({ value }) => value);
    return { text: [document.title, document.body.innerText, ...attributes, ...fields].join("\n"), images: document.images.length,
      scripts: document.scripts.length, wide: document.documentElement.scrollWidth };
  });
  for (const key of ["n", "r", "r", "m", "2", "3", "1", "b", "Escape", "Escape", "Escape", "/"]) {
    await page.keyboard.press(key);
    if (key === "/") await page.keyboard.type("caller:");
    await page.waitForTimeout(50);
    const { text, images, scripts, wide } = await drawn();
    assert.deepEqual([images, scripts, wide], [0, 1, 1280], key);
    assert.match(text, /<img src=x onerror="?\\?"?alert\\?\(1\\?\)/, key);
    assert.match(text, /⟨ESC⟩.*⟨U\+202E⟩evil/s, key);
    assert.doesNotMatch(text, /[\u0000-\u0008\u001b\u202a-\u202e\u2066-\u2069\ufeff]/, key);
  }
  await close();
});

test("shows the id that an agent changed in its row, its cause and the report", WITH_FIXTURES, async () => {
  const change = /The agent probably changed the id from `?m2`? to `?m3`?: `?m3`? has no start, and `?m2`? was open\./;
  const { page, close } = await open(`#/run/${STORY_IDS.hostile}`);
  await page.waitForSelector(".row-line[aria-selected=true]");
  const line = page.locator(".row-line.dropped", { hasText: "m3" });
  assert.match(await line.innerText(), change);
  await line.click();
  await shows(page, ".detail .panel", change);
  await page.keyboard.press("b");
  assert.match((await page.locator("dialog textarea").inputValue()).replaceAll("\\", ""), change);
  await close();
});

test("shows a member of 10 MB only in part, and all on request", WITH_FIXTURES, async () => {
  const { page, close } = await open(`#/run/${STORY_IDS["huge state"]}`);
  await page.waitForSelector(".row-line[aria-selected=true]");
  await page.locator(".row-line").filter({ hasText: "STATE_SNAPSHOT" }).click();
  await page.keyboard.press("r");
  assert.ok((await page.locator(".detail pre").first().textContent()).length <= 4_000);
  await page.keyboard.press("a");
  assert.ok((await page.locator(".detail pre").first().textContent()).length > 10_000_000);
  await close();
});

test("scrolls and filters 5,000 runs without stutter", WITH_FIXTURES, async (t) => {
  const { page, close } = await open();
  await page.waitForFunction(() => document.querySelector(".status").textContent.includes("5,001 runs"));
  checkFrames(t, "5,000 runs, scrolling", await longestStep(page, scrollSteps(page)));
  checkFrames(t, "5,000 runs, filtering", await longestStep(page, typeSteps(page, "#run-filter", "route:chat* losses:0")));
  await close();
});

test("scrolls and filters 100,000 rows without stutter", WITH_FIXTURES, async (t) => {
  const began = performance.now();
  const { page, close } = await open(`#/run/${LONG_RUN}`);
  await page.waitForFunction(() => document.querySelector(".events .status")?.textContent.startsWith("100,000 rows"), undefined, { timeout: 120_000 });
  t.diagnostic(`100,000 rows, loading: ${((performance.now() - began) / 1_000).toFixed(1)} s`);
  checkFrames(t, "100,000 rows, scrolling", await longestStep(page, scrollSteps(page)));
  checkFrames(t, "100,000 rows, filtering", await longestStep(page, typeSteps(page, "#row-filter", "type:TOOL_* look_up")));
  await page.waitForFunction(() => document.querySelector(".events .status").textContent.startsWith("100 lines"));
  await page.keyboard.press("Enter");
  await page.keyboard.press("n");
  await page.waitForFunction(() => document.querySelector("[aria-selected=true] .c-n")?.textContent === "51,234");
  await close();
});

test("draws no more of 100,000 rows than can be seen, in each part of the run", WITH_FIXTURES, async (t) => {
  const { page, close } = await open(`#/run/${LONG_RUN}`);
  await page.waitForFunction(() => document.querySelector(".events .status")?.textContent.startsWith("100,000 rows"), undefined, { timeout: 120_000 });
  const drawn = async (part) => {
    const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
    t.diagnostic(`${part}: ${nodes} elements`);
    assert.ok(nodes < 5_000, `${part} has ${nodes} elements`);
  };
  await page.waitForSelector(".row-line[aria-selected=true]");
  await page.keyboard.press("End");
  await page.keyboard.press("m");
  // Of each side's 401 messages, and the user's, the last 200.
  await page.locator(".detail .message", { hasText: "m100000" }).nth(1).waitFor({ timeout: 60_000 });
  assert.deepEqual(await page.locator(".detail .none", { hasText: "202 earlier messages" }).count(), 2);
  assert.equal(await page.locator(".detail .message").count(), 400);
  await drawn("messages");
  await page.keyboard.press("3");
  await page.waitForSelector(".waterfall");
  await drawn("timeline");
  await page.keyboard.press("1");
  await page.locator(".row-line[aria-selected=true]", { hasText: "w100000" }).waitFor();
  await close();
});

test("tables of the throughput stay where they were scrolled to when they are drawn again", WITH_FIXTURES, async () => {
  const { page, close } = await open("#/throughput");
  const table = page.locator(".scroll[aria-label='Events by type']");
  const top = await table.evaluate((region) => {
    region.dataset.old = "true";
    region.focus();
    region.scrollTop = 30;
    return region.scrollTop;
  });
  assert.ok(top > 0, "there is something to scroll");
  await page.waitForFunction(() => document.querySelector(".cards .scroll") && !document.querySelector("[data-old]"));
  assert.deepEqual(await table.evaluate((region) => [region.scrollTop, region === document.activeElement]), [top, true]);
  await close();
});

test("copies a report and a command, and saves the recording", WITH_FIXTURES, async () => {
  const { page, close } = await open(`#/run/${STORY_IDS.truncated}`);
  await page.waitForSelector(".row-line[aria-selected=true]");
  await page.keyboard.press("c");
  assert.match(await page.locator("dialog textarea").inputValue(), /^# Fill in [^\n]+\ncurl -sN -X POST 'http:\/\/gateway\.example:8787\/chat'.*authorization: \*\*\*.*--data-raw '\{"threadId"/s);
  await page.keyboard.press("Escape");
  // A dialog that is closing still takes the keys.
  await page.waitForSelector("dialog", { state: "detached" });
  await page.keyboard.press("b");
  assert.match(await page.locator("dialog textarea").inputValue(), /^# Run on chat.*upstream\\_truncated/s);
  await page.keyboard.press("Escape");
  // A dialog that is closing still takes the keys.
  await page.waitForSelector("dialog", { state: "detached" });
  const [download] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("d")]);
  assert.equal(download.suggestedFilename(), `run-${STORY_IDS.truncated}.ndjson`);
  await close();
});

test("takes the token of a new process that is pasted into the tab of the old one", WITH_FIXTURES, async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${server.url}/#token=of-the-old-process`);
  await page.waitForFunction(() => document.querySelector(".banner").textContent.includes("does not accept"));
  // Only the part behind `#` differs, so the browser loads nothing.
  await page.evaluate((token) => void (location.hash = `token=${token}`), server.token);
  await page.waitForFunction(() => document.querySelector(".status")?.textContent.includes("5,001 runs"));
  assert.ok(!page.url().includes("token"), page.url());
  await context.close();
});

test("offers recording where nothing is recorded, and says when the token is wrong", WITH_FIXTURES, async () => {
  const empty = await startServer({ empty: true });
  const { page, close } = await open("", { from: empty });
  await page.waitForSelector(".empty.shown table");
  await page.getByRole("button", { name: "full for 10 min" }).first().click();
  await page.waitForFunction(() => document.querySelector(".empty table").innerText.includes("full until"));
  await page.screenshot({ path: path.join(SHOTS, "runs-none.png") });
  await close();
  const context = await browser.newContext();
  const stranger = await context.newPage();
  await stranger.goto(`${empty.url}/#token=wrong`);
  await stranger.waitForFunction(() => document.querySelector(".banner").textContent.includes("does not accept"));
  await context.close();
  const other = await browser.newContext();
  const bare = await other.newPage();
  await bare.goto(empty.url);
  await bare.waitForFunction(() => document.querySelector(".banner").textContent.includes("has no token"));
  await other.close();
  empty.stop();
});

test("marks on the Chinese page what the gateway has in English alone", WITH_FIXTURES, async () => {
  const { page, close } = await open(`#/run/${STORY_IDS.truncated}`, { language: "zh-CN" });
  await page.waitForSelector(".row-line[aria-selected=true]");
  assert.deepEqual(await page.locator(".verdict [lang=en]").allInnerTexts(), ["The agent's response ended early.", "a note of a later gateway"]);
  await page.getByRole("button", { name: "第 10 行" }).click();
  assert.equal(await textOf(page, ".detail .note [lang=en]"), "a note of a later gateway");
  await page.keyboard.press("b");
  // The report has the moments in the reader's words, too.
  const report = await page.locator("dialog textarea").inputValue();
  assert.match(report, /请求读取完毕: 214 字节/);
  assert.match(report, /\| 路由 \| .*\| 首个事件 \| /s);
  await page.keyboard.press("Escape");
  await page.keyboard.press("3");
  await shows(page, ".waterfall", /通过：chat：每个调用方在 1m 内 60 个请求，同时最多 10 个；所有副本合计/);
  await page.keyboard.press("Escape");
  await page.waitForSelector(".runs");
  await page.locator("#run-filter").fill("code:upstream_truncated");
  await shows(page, ".space .run-line .second [lang=en]", /^The agent's response ended early\.$/);
  await close();
});

/** Returns the texts with English words in a row that are neither marked as English nor quoted. */
function unmarkedEnglish(page) {
  return page.evaluate(() => {
    const quoted = "[lang=en], code, pre, textarea, .member, .row-line .second, .message, .said, option, .filter li";
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
      const { data, parentElement: parent } = walker.currentNode;
      if (/[A-Za-z]+ [a-z]+ [a-z]+/.test(data) && parent.closest(quoted) === null) found.push(data);
    }
    return found;
  });
}

test("leaves no English unmarked on the Chinese page", WITH_FIXTURES, async () => {
  const { page, close } = await open("", { language: "zh-CN" });
  assert.deepEqual(await unmarkedEnglish(page), []);
  for (const id of Object.values(STORY_IDS)) {
    await page.evaluate((to) => void (location.hash = `#/run/${to}`), id);
    await page.waitForFunction((to) => location.hash === `#/run/${to}` && document.querySelector(".row-line[aria-selected=true]"), id);
    for (const key of ["m", "m", "2", "3"]) {
      assert.deepEqual(await unmarkedEnglish(page), [], `run ${id}`);
      await page.keyboard.press(key);
    }
    assert.deepEqual(await unmarkedEnglish(page), [], `timeline of run ${id}`);
  }
  await page.evaluate(() => void (location.hash = "#/throughput"));
  await page.waitForSelector(".cards .card");
  assert.deepEqual(await unmarkedEnglish(page), [], "throughput");
  await page.keyboard.press("?");
  assert.deepEqual(await unmarkedEnglish(page), [], "help");
  await close();
});

test("says in the head of a run how much of it was not recorded", WITH_FIXTURES, async () => {
  const { page, close } = await open(`#/run/${STORY_IDS.limit}`);
  await page.waitForSelector(".row-line[aria-selected=true]");
  assert.equal(await textOf(page, ".run-top .facts .missed"), "▲ 2.1 kB, without 3.5 MB");
  await shows(page, ".verdict", /3\.5 MB of this run were not recorded/);
  await page.keyboard.press("Escape");
  await page.waitForSelector(".runs");
  for (const filter of ["missed:>0", `#${STORY_IDS.limit}`]) {
    await page.locator("#run-filter").fill(filter);
    await shows(page, ".tools .status", /^1 of 5,001 runs/);
  }
  // What a row shows of losses and repairs is found by its words.
  await page.locator("#run-filter").fill("after_terminal");
  await shows(page, ".space .run-line:first-child .second", /The agent went on after its end of the run/);
  await close();
});

const VIEWS = {
  runs: { place: "", ready: ".space .run-line" },
  "runs-filter": { place: "", ready: ".space .run-line", keys: ["/", "o"] },
  run: { place: `#/run/${STORY_IDS.truncated}`, ready: ".row-line[aria-selected=true]" },
  "run-split": { place: `#/run/${STORY_IDS["call without end"]}`, ready: ".row-line[aria-selected=true]" },
  "run-hostile": { place: `#/run/${STORY_IDS.hostile}`, ready: ".row-line[aria-selected=true]" },
  "run-held": { place: `#/run/${STORY_IDS["call without end"]}`, ready: ".row-line[aria-selected=true]", keys: ["m"] },
  "run-copy": { place: `#/run/${STORY_IDS.truncated}`, ready: ".row-line[aria-selected=true]", keys: ["c"], parts: "dialog > *" },
  requests: { place: `#/run/${STORY_IDS.truncated}`, ready: ".row-line[aria-selected=true]", keys: ["2"] },
  timeline: { place: `#/run/${STORY_IDS["slow first byte"]}`, ready: ".row-line[aria-selected=true]", keys: ["3"] },
  throughput: { place: "#/throughput", ready: ".cards .scroll" },
  help: { place: "", ready: ".space .run-line", keys: ["?"] },
};

/** Returns the elements that stand on the one before them, or that are cut. */
function overlaps(page, selector) {
  return page.locator(selector).evaluateAll((all) => {
    const boxes = all.map((one) => one.getBoundingClientRect());
    const outer = all[0].parentElement.getBoundingClientRect();
    return all.filter((_, at) => (at > 0 && boxes[at].top < boxes[at - 1].bottom && boxes[at].left < boxes[at - 1].right)
      || boxes[at].right > outer.right || boxes[at].bottom > outer.bottom).map(({ outerHTML }) => outerHTML.slice(0, 80));
  });
}

const VARIANTS = process.env.ALL_VARIANTS === undefined
  ? [[1280, false, "en-US"], [1280, true, "zh-CN"], [800, false, "zh-CN"], [800, true, "en-US"]]
  : [1280, 800].flatMap((width) => [false, true].flatMap((dark) => ["en-US", "zh-CN"].map((language) => [width, dark, language])));
for (const [width, dark, language] of VARIANTS) {
  const variant = `${width}-${dark ? "dark" : "light"}-${language.slice(0, 2)}`;
  test(`fits at ${variant}`, WITH_FIXTURES, async () => {
    const { page, close } = await open("", { width, dark, language });
    for (const [name, { place, ready, keys = [], parts }] of Object.entries(VIEWS)) {
      // Reloaded, because a view that is shown already keeps what was chosen in it.
      await page.evaluate((to) => void (location.hash = to), place);
      await page.reload();
      await page.waitForSelector(ready);
      for (const key of keys) await page.keyboard.press(key);
      await page.waitForTimeout(100);
      await page.screenshot({ path: path.join(SHOTS, `${name}-${variant}.png`) });
      if (name === "run") {
        const why = await page.locator(".detail .panel .lead").boundingBox();
        assert.ok(why !== null && why.y + why.height < 800, `the cause of the row is at ${why?.y}`);
      }
      if (name === "run-hostile") {
        const list = await page.locator(".events .scroller").boundingBox();
        assert.ok(list !== null && list.height > (width === 1280 ? 200 : 100), `the rows have ${list?.height} px`);
      }
      if (name === "timeline") {
        // Words are not broken, and what the gateway writes in backticks is code.
        const detail = page.locator(".waterfall tbody .what").filter({ hasText: "Authorization" });
        const box = await detail.boundingBox();
        assert.ok(box !== null && box.width >= 130 && box.height < 90, `the detail has ${box?.width} x ${box?.height} px`);
        assert.equal(await detail.locator("code").innerText(), "Authorization: Bearer \u2026");
      }
      if (parts !== undefined) assert.deepEqual(await overlaps(page, parts), [], name);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${name} is ${wide} px wide`);
      // A list that is not bound in height would draw all its lines.
      assert.ok((await page.locator(".space > [role=row]").count()) < 60, name);
    }
    await close();
  });
}
