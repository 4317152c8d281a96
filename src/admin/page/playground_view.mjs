// The playground: writes to a route as one of its clients, and shows the conversation as a chat and as events.
import { button, element, longText, onKeys, put, putChanged, withCode } from "./dom.mjs";
import { divided } from "./gateway_texts.mjs";
import { failureOf, ownWordsOf, wordsOf } from "./gateway_words.mjs";
import { readJson } from "./json_members.mjs";
import { say, sayName } from "./messages.mjs";
import { count } from "./numbers.mjs";
import { readRoutes } from "./playground_api.mjs";
import { callForm, drawUnsent, EventList, interruptForm, MessageList } from "./playground_parts.mjs";
import { PlaygroundSession } from "./playground_session.mjs";
import { tabs } from "./widgets.mjs";

/** An agent can repeat one in each event. */
const MOST_PROBLEMS = 5;

const session = new PlaygroundSession();

/**
 * @param {HTMLElement} main
 * @param {import("./run_store.mjs").RunStore} store
 * @param {AbortSignal} signal
 */
export async function showPlayground(main, store, signal) {
  /** @type {import("./playground_api.mjs").PlaygroundRoute[]} */
  let routes = [];
  const problem = element("p", { role: "alert" });
  put(main, problem);
  try {
    routes = await readRoutes(signal);
  } catch (error) {
    if (!signal.aborted) put(problem, failureOf(error));
  }
  if (signal.aborted || routes.length === 0) return;
  const known = routes.find(({ name }) => name === session.route?.name);
  if (known === undefined) session.choose(routes[0]);
  else session.route = known;

  const settings = settingsOf(routes);
  const chat = chatPane();
  const side = sidePane();
  put(main, element("section", { class: "playground", "aria-label": say("play.title") },
    element("h1", { class: "unseen" }, say("play.title")), settings.root,
    element("div", { class: "play-panes" }, chat.root, side.root)));
  const draw = () => {
    settings.draw();
    chat.draw(store);
    side.draw();
  };
  let isDue = false;
  const drawSoon = () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      if (!signal.aborted) draw();
    });
  };
  session.onChange(drawSoon, signal);
  store.onChange(() => chat.drawStatus(store), signal);
  onKeys({ w: () => chat.box.focus() }, signal);
  draw();
}

/** @param {import("./playground_api.mjs").PlaygroundRoute[]} routes */
function settingsOf(routes) {
  const choose = element("select", { id: "play-route", onchange: () => {
    const chosen = routes.find(({ name }) => name === choose.value);
    if (chosen !== undefined) session.choose(chosen);
  } }, ...routes.map(({ name, path }) => element("option", { value: name }, `${name}  ${path}`)));
  const dialects = element("select", { "aria-label": say("play.client"), onchange: () => {
    session.client = dialects.value;
    session.reset();
  } });
  const facts = element("p", { class: "status" });
  const credentials = element("span", { class: "credentials" });
  let drawnFor = "";

  function draw() {
    const { route } = session;
    if (route === undefined || drawnFor === route.name) return;
    drawnFor = route.name;
    choose.value = route.name;
    put(dialects, ...route.clients.map((name) => element("option", { value: name }, name)));
    dialects.value = session.client;
    dialects.hidden = route.clients.length === 1;
    put(facts, say(route.clients.length === 1 ? "play.dialect" : "play.dialects",
      { client: session.client, agent: route.agent }), " ",
    say(route.resumable ? "play.resumable" : "play.not_resumable"));
    put(credentials, ...route.credentials.map(credentialField),
      route.credentials.length === 0 && element("span", { class: "status" }, say("play.open")));
  }

  return {
    draw,
    root: element("div", { class: "play-settings" },
      element("div", { class: "tools" }, element("label", { for: "play-route" }, say("column.route")), choose, dialects,
        credentials, button(say("play.new"), () => session.reset())),
      facts),
  };
}

/** @param {string} name */
function credentialField(name) {
  const field = element("input", { type: "password", autocomplete: "off", spellcheck: "false", oninput: () =>
    session.credentials.set(name, field.value) });
  field.value = session.credentials.get(name) ?? "";
  return element("label", { title: say("play.credential_help") }, element("code", {}, name), field);
}

function chatPane() {
  const said = element("div", { class: "chat", role: "log", "aria-label": say("play.chat"), tabindex: "0" });
  const asked = element("div", {});
  const status = element("div", { class: "play-status", role: "status" });
  const box = element("textarea", { rows: "2", placeholder: say("play.placeholder"), "aria-label": say("play.message") });
  const sendIt = button(say("play.send"), sendMessage);
  const write = button(say("play.write"), () => session.prepare(takeText()));
  const stop = button(say("play.stop"), () => session.stop());
  const lose = button(say("play.lose"), () => session.lose());
  const back = button(say("play.back"), () => session.comeBack());
  const list = new MessageList();
  let askedFor = "";

  function takeText() {
    const text = box.value.trim();
    box.value = "";
    return text;
  }

  function sendMessage() {
    if (box.value.trim() !== "") session.say(takeText());
  }

  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || sendIt.disabled) return;
    event.preventDefault();
    sendMessage();
  });

  /** @param {import("./run_store.mjs").RunStore} store */
  function drawStatus(store) {
    const atEnd = isAtEnd();
    put(status, ...statusOf(store));
    if (atEnd) said.scrollTop = said.scrollHeight;
  }

  const isAtEnd = () => said.scrollHeight - said.scrollTop - said.clientHeight < 40;

  /** Draws what the agent waits for once: what is typed into it stays. */
  function drawQuestions() {
    const { conversation, state } = session;
    const interrupts = state === "ended" ? conversation.interrupts : [];
    const calls = state === "ended" && interrupts.length === 0 ? conversation.openCalls : [];
    const ids = [...interrupts, ...calls].map(({ id }) => id);
    const asks = ids.length > 0 ? [conversation.runId, ...ids].join(" ") : "";
    if (asks === askedFor) return;
    askedFor = asks;
    put(asked, interrupts.length > 0 && interruptForm(interrupts, (answers) => session.say("", answers)),
      calls.length > 0 && callForm(calls, (results) => session.answerCalls(results)));
  }

  /** @param {import("./run_store.mjs").RunStore} store */
  function draw(store) {
    const { conversation, state, route } = session;
    const atEnd = isAtEnd();
    const { fold: { messages, problems }, unsent } = conversation;
    const isEmpty = messages.length === 0 && unsent.length === 0;
    putChanged(said, isEmpty && element("p", { class: "none" }, say("play.empty")), ...list.draw(messages),
      ...unsent.map((text, at) => drawUnsent(text, state !== "open", () => session.sayAgain(at))),
      ...problems.slice(0, MOST_PROBLEMS).map((text) => element("p", { class: "note" }, say("held.problem", { problem: text }))));
    const isOpen = state === "open";
    drawQuestions();
    for (const one of [sendIt, write]) one.disabled = isOpen;
    const isLost = state === "lost" && route?.resumable === true && !conversation.isEnded;
    stop.disabled = !isOpen && !isLost;
    lose.disabled = !isOpen;
    lose.hidden = route?.resumable !== true;
    back.disabled = !isLost;
    back.hidden = lose.hidden;
    drawStatus(store);
    // Last: what stands below takes room.
    if (atEnd) said.scrollTop = said.scrollHeight;
  }

  const root = element("section", { class: "card play-chat", "aria-label": say("play.chat") }, said, asked, status,
    element("div", { class: "composer" }, box,
      element("span", { class: "buttons" }, sendIt, write, stop, lose, back)));
  return { root, draw, drawStatus, box };
}

/**
 * Returns the state of the run in a sentence, and what the gateway answered in place of one.
 * @param {import("./run_store.mjs").RunStore} store
 */
function statusOf(store) {
  const { state, head, text, failure, conversation, received } = session;
  const parts = [];
  if (state !== "idle") parts.push(element("p", {}, `${say(`play.state.${state}`)} `,
    head !== undefined && `HTTP ${head.status}. `, received > 0 && say("play.events", { count: count(received) })));
  if (failure !== "") parts.push(element("p", { class: "loss" }, failureOf(new Error(failure))));
  if (conversation.error !== "") parts.push(element("p", { class: "loss" }, "RUN_ERROR: ", ...withCode(wholly(conversation.error))));
  if (text !== "" && head !== undefined && head.status >= 400) parts.push(refusalOf(text));
  const ids = head?.headers.filter(([name]) => name === "x-request-id").map(([, id]) => id) ?? [];
  const run = [...store.runs.values()].find((one) => ids.includes(one.request_id));
  if (run !== undefined) parts.push(element("a", { href: `#/run/${run.id}` }, say("play.both_sides")));
  return parts;
}

/**
 * Returns a text that the agent or the gateway may have written: translated only if all of it is the gateway's.
 * @param {string} text
 */
function wholly(text) {
  const { known, own } = divided(text);
  return own === "" ? known : text;
}

/**
 * A refusal: its code, its text and the hint of what to do.
 * @param {string} text
 */
function refusalOf(text) {
  const problem = /** @type {any} */ (readJson(text));
  if (typeof problem?.code !== "string") return longText(text);
  const { known, own } = divided(String(problem.detail ?? problem.title ?? ""));
  return element("div", { class: "loss" }, element("b", {}, problem.code), " ",
    ...(own === "" ? withCode(known) : wordsOf(String(problem.title ?? ""))), " ",
    element("i", {}, ...wordsOf(String(problem.hint ?? ""))),
    own !== "" && element("p", { class: "own-words" }, ...ownWordsOf(own)));
}

/** The events, and the request as it is sent, which can be edited and sent again. */
function sidePane() {
  const list = new EventList();
  const field = (/** @type {keyof typeof session.draft} */ name, /** @type {string} */ rows) => {
    const input = element("textarea", { rows, id: `play-${name}`, spellcheck: "false" });
    input.addEventListener("input", () => (session.draft[name] = input.value));
    return input;
  };
  const fields = { method: field("method", "1"), path: field("path", "1"), headers: field("headers", "4"),
    body: field("body", "14") };
  const losses = element("div", {});
  const again = button(say("play.send_draft"), () => session.sendDraft());
  const editor = element("div", { class: "draft" }, element("p", { class: "status" }, say("play.draft_help")),
    ...Object.entries(fields).map(([name, input]) =>
      element("div", {}, element("label", { for: input.id }, sayName("play.draft", name)), input)),
    losses, again);
  const parts = tabs("play", say("play.parts"), {
    events: { key: null, draw: (body) => put(body, list.root) },
    request: { key: null, draw: (body) => put(body, editor) },
    answer: { key: null, draw: drawAnswer },
  });
  parts.choose("events");
  /** @type {unknown} */
  let drawnDraft;

  /** @param {HTMLElement} body */
  function drawAnswer(body) {
    const { head, text } = session;
    put(body, head === undefined ? element("p", { class: "none" }, say("play.no_answer"))
      : longText([`HTTP ${head.status}`, ...head.headers.map(([name, value]) => `${name}: ${value}`), "", text].join("\n")));
  }

  function draw() {
    list.draw(session.rows);
    if (parts.chosen === "answer") drawAnswer(parts.body);
    again.disabled = session.state === "open" || session.draft.path === "";
    if (drawnDraft === session.draft) return;
    drawnDraft = session.draft;
    for (const [name, input] of Object.entries(fields))
      input.value = session.draft[/** @type {keyof typeof session.draft} */ (name)];
    put(losses, ...(session.composed?.losses ?? []).map(({ label, help }) =>
      element("p", { class: "loss" }, element("b", {}, label), " ", ...wordsOf(help))));
  }

  return { root: element("section", { class: "card play-side", "aria-label": say("play.parts") }, parts.root), draw };
}
