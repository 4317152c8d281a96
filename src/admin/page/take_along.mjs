// Makes what a person takes along from a run: a curl command, and a report for an issue.
import { translated } from "./gateway_texts.mjs";
import { say, sayName } from "./messages.mjs";
import { bytes, count, duration } from "./numbers.mjs";
import { SecretMask } from "./secrets.mjs";
import { codeParts, visible } from "./visible_text.mjs";
import { partsOfDetail } from "./waterfall.mjs";

/** @typedef {import("./api.mjs").RunDetail} RunDetail */

/** Stands in the place of a value that is not recorded. */
const MASKED = "***";
const MOST_ROWS = 20;
const MOST_DATA = 1_500;
/** Headers that curl writes itself, and the id that the gateway gave. */
const OWN_HEADERS = ["host", "content-length", "connection", "transfer-encoding", "accept-encoding", "x-request-id"];

/**
 * Returns the command that sends a client's request again. The gateway's address is left to whoever runs it unless the
 * head names it, and so are the values of credentials, which are not recorded.
 * @param {string} body
 * @param {string | null} head
 */
export function curlOf(body, head) {
  const [, method, target, rest] = /^([A-Z]+) (\S+) HTTP\/[\d.]+\n([\s\S]*)$/.exec(head ?? "") ?? [
    "",
    "POST",
    null,
    "",
  ];
  const headers = rest
    .split("\n")
    .filter(Boolean)
    .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]);
  const host = headers.find(([name]) => name === "host")?.[1];
  const sent = headers.filter(([name]) => !OWN_HEADERS.includes(name));
  if (!sent.some(([name]) => name === "content-type")) sent.push(["content-type", "application/json"]);
  const url =
    host === undefined ? `"$GATEWAY"${target === null ? "" : quote(target)}` : quote(`http://${host}${target}`);
  const lines = [`curl -sN -X ${method} ${url}`, ...sent.map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`)];
  if (body !== "") lines.push(`--data-raw ${quote(body)}`);
  const command = lines.join(" \\\n  ");
  return sent.some(([, value]) => value.includes(MASKED)) ? `# ${say("take.fill_in")}\n${command}` : command;
}

/**
 * Quotes a word for a POSIX shell; with characters that a terminal would obey, for bash and zsh.
 * @param {string} word
 */
export function quote(word) {
  if (visible(word) === word && !/[\n\t]/.test(word)) return `'${word.replaceAll("'", "'\\''")}'`;
  const escaped = Array.from(word, (character) => {
    if (character === "'" || character === "\\") return `\\${character}`;
    if (visible(character) === character && !/[\n\t]/.test(character)) return character;
    return [...new TextEncoder().encode(character)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
  });
  return `$'${escaped.join("")}'`;
}

/**
 * Returns a report in Markdown: how the run went, and its remarkable rows. Their data is there if it was recorded; what
 * looks like a secret is masked in all of it.
 * @param {RunDetail} run
 * @param {import("./row_book.mjs").RowBook} book
 * @param {import("./verdict.mjs").Sentence[]} verdict
 */
export function reportOf(run, book, verdict) {
  const mask = new SecretMask();
  const facts = [
    [say("column.route"), run.route],
    [say("side.agent"), run.agent],
    [say("side.client"), run.client],
    [say("column.outcome"), run.outcome ?? run.state],
    [say("column.code"), run.code ?? "-"],
    [say("column.run"), run.run_id],
    [say("column.thread"), run.thread_id],
    [say("column.request"), run.request_id],
    [say("column.started"), new Date(run.started_ms).toISOString()],
    [say("column.duration"), duration(run.duration_ms)],
    [say("column.first"), duration(run.first_event_ms)],
    [say("column.events"), `${count(run.events_in)} \u2192 ${count(run.events_out)}`],
    [say("column.bytes"), `${bytes(run.bytes_in)} \u2192 ${bytes(run.bytes_out)}`],
    [say("column.repairs"), count(run.repairs)],
    [say("column.losses"), count(run.losses)],
    [say("column.recorded"), `${bytes(run.kept_bytes)} / ${bytes(run.kept_bytes + run.missed_bytes)}`],
    ...Object.entries(run.settings).filter(([, value]) => value !== null).map(([name, value]) => [name, String(value)]),
  ];
  const timeline = run.timeline.map(
    (moment) => {
      const { at_ms: at, name, times = 1 } = moment;
      const text = partsOfDetail(moment).map(({ text }) => text).join("");
      return `- ${duration(at)} ${plain(sayName("moment", name))}${times > 1 ? ` ×${times}` : ""}${text && `: ${withSpans(mask.maskSentence(text))}`}`;
    },
  );
  const rows = book.remarkable.slice(0, MOST_ROWS).flatMap((row) => rowReport(row, run.mode, mask));
  const sentences = verdict.map(({ text }) => `- ${withSpans(mask.maskId(text))}`);
  const table = facts.map(([name, value]) => `| ${plain(name)} | ${plain(mask.maskId(value))} |`);
  const counts = [...mask.counts].map(([name, times]) => `- ${sayName("mask", name)}: ${count(times)}`);
  return [
    `# ${say("report.title", { route: plain(mask.maskId(run.route)) })}`,
    "",
    ...sentences,
    "",
    "| | |",
    "|---|---|",
    ...table,
    "",
    `## ${say("timeline.title")}`,
    "",
    ...timeline,
    "",
    ...(rows.length > 0 ? [`## ${say("report.rows")}`, "", ...rows] : []),
    `## ${say("report.masked")}`,
    "",
    ...(counts.length > 0 ? counts : [say("report.nothing_masked")]),
    "",
    say("report.masked_help"),
  ].join("\n");
}

/**
 * @param {import("./api.mjs").Row} row
 * @param {string} mode
 * @param {SecretMask} mask
 */
function rowReport({ n, at_ms, agent, client, cause, repairs, losses, note, id_change: ids }, mode, mask) {
  const types = `${agent?.type ?? "-"} \u2192 ${client.map(({ type }) => type).join(", ") || "-"}`;
  const lines = [`### ${n}. ${plain(types)} (${sayName("cause", cause)}, ${duration(at_ms)})`, ""];
  for (const { label, help, rule, member } of [...losses, ...repairs])
    lines.push(`- \`${label}\`${member === undefined ? "" : ` ${plain(member)}`}: ${plain(translated(help))}${rule ? ` (${say("detail.rule")} ${plain(translated(rule))})` : ""}`);
  if (ids !== undefined) lines.push(`- ${withSpans(mask.maskId(say("detail.id_change", ids)))}`);
  if (note !== null) lines.push(`- ${withSpans(mask.maskId(translated(note)))}`);
  if (mode === "full") for (const side of [agent, ...client]) if (side?.data) lines.push(fenced(mask.maskData(side.data)));
  return [...lines, ""];
}

/**
 * Escapes a sentence, but for what stands in backticks, which is code in Markdown, too.
 * @param {string} text
 */
function withSpans(text) {
  const parts = codeParts(text.replace(/\s*\n\s*/g, " "));
  return parts.map(({ text: part, isCode }) => (isCode ? `\`${visible(part)}\`` : plain(part))).join("");
}

/**
 * Escapes what would be markup in Markdown.
 * @param {string} text
 */
function plain(text) {
  return visible(text)
    .replace(/[\\`*_{}[\]<>#|~]/g, "\\$&")
    .replace(/\s*\n\s*/g, " ");
}

/**
 * Puts data into a block that it cannot end.
 * @param {string} data
 */
function fenced(data) {
  const longest = Math.max(2, ...Array.from(data.matchAll(/`+/g), ([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  const cut = data.length > MOST_DATA ? `${data.slice(0, MOST_DATA)}\u2026` : data;
  return `\n${fence}json\n${visible(cut)}\n${fence}`;
}
