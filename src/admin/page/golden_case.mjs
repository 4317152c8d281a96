// Makes a golden case of a recording: the folder that `tests/golden` of the gateway's source has for each, in a tar file.
// The run gets the ids of all cases, `t1` and `r1`. Times that the gateway made, and the order of the counts, are those of
// the case once its expectation is written with `UPDATE=1` and compared with the dialects' documents.

const BLOCK = 512;

/**
 * Texts as bytes: each character is one byte, so that a character that the agent's connection cut stays cut.
 * @param {string} text
 */
function toBytes(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

/**
 * Returns a dialect as a golden folder names it: `hai:content=string` is `hai.content=string`.
 * @param {string} dialect  as a recording has it
 */
export function folderOf(dialect) {
  const [name, options = ""] = dialect.split(/:(.*)/s);
  const words = options.split(",").filter(Boolean);
  return [name, ...words.map((word) => word.replaceAll(".", "-"))].join(".");
}

/**
 * Returns whether a run makes a case: it needs a whole stream of the agent, and half a character is no text.
 * @param {{ state: string, missed_bytes: number }} run
 * @param {{ rows: { agent: unknown }[], cut?: { cut_within?: string | null } | null }} book
 */
export function isCase(run, { rows, cut }) {
  return run.state === "ended" && run.missed_bytes === 0 && rows.some(({ agent }) => agent !== null) && cut?.cut_within !== "character";
}

/**
 * Returns the files of a case, as bytes by path.
 * @param {string} recording  NDJSON
 * @param {{ repairs: Map<string, { count: number }>, losses: Map<string, { count: number }> }} book
 * @returns {Record<string, string>}
 */
export function goldenCase(recording, { repairs, losses }) {
  const lines = recording
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  const [head] = lines;
  const joined = (/** @type {"agent" | "client"} */ side) =>
    lines
      .slice(1)
      .map((line) => (line[`${side}_base64`] !== undefined ? atob(line[`${side}_base64`]) : toBytes(line[side] ?? "")))
      .join("");
  const renamed = (/** @type {string} */ bytes) =>
    bytes
      .replaceAll(toBytes(JSON.stringify(head.thread_id)), '"t1"')
      .replaceAll(toBytes(JSON.stringify(head.run_id)), '"r1"');
  const counts = [
    ...[...repairs].map(([label, { count }]) => `: repair ${label} ${count}\n`),
    ...[...losses].map(([label, { count }]) => `: loss ${label} ${count}\n`),
  ];
  const expected = renamed(joined("client")).replace(/^id: ?.*\n/gm, "") + counts.join("");
  const name = `${head.route.replace(/[^\w.-]+/g, "-")}-${head.run_id.replace(/[^\w.-]+/g, "-")}`.slice(0, 40);
  const [agent, client] = [folderOf(head.agent), folderOf(head.client)];
  const note = `Recorded on route ${head.route} at ${new Date(head.started_ms).toISOString()}; ends as ${head.outcome}.\n`;
  const stream = `stream/${agent}-to-${client}/${name}`;
  /** @type {Record<string, string>} */
  const files = {
    [`${stream}/input.sse`]: renamed(joined("agent")),
    [`${stream}/expected.sse`]: expected,
    [`${stream}/note.md`]: toBytes(note),
  };
  const request = (/** @type {string} */ side) => lines.find((line) => line.request === side)?.body;
  const bodies = [request("client"), request("agent")];
  if (bodies.every((body) => body !== undefined)) {
    const folder = `request/${client}-to-${agent}/${name}`;
    for (const [at, file] of ["input.json", "expected.json"].entries())
      files[`${folder}/${file}`] = `${renamed(toBytes(bodies[at])).trimEnd()}\n`;
  }
  return files;
}

/**
 * Returns a tar file (POSIX ustar).
 * @param {Record<string, string>} files  bytes by path
 */
export function tarOf(files) {
  const parts = Object.entries(files).flatMap(([path, content]) => [
    headerOf(path, content.length),
    content.padEnd(Math.ceil(content.length / BLOCK) * BLOCK, "\0"),
  ]);
  const bytes = `${parts.join("")}${"\0".repeat(2 * BLOCK)}`;
  return Uint8Array.from(bytes, (character) => character.charCodeAt(0));
}

/**
 * @param {string} path
 * @param {number} size
 */
function headerOf(path, size) {
  const octal = (/** @type {number} */ value, /** @type {number} */ width) =>
    `${value.toString(8).padStart(width - 1, "0")}\0`;
  // A path of more than 100 bytes is divided at a slash.
  const at = path.length > 100 ? path.lastIndexOf("/", 155) : -1;
  const [prefix, name] = at < 0 ? ["", path] : [path.slice(0, at), path.slice(at + 1)];
  const before = `${name.padEnd(100, "\0")}${octal(0o644, 8)}${octal(0, 8)}${octal(0, 8)}${octal(size, 12)}${octal(0, 12)}`;
  const after = `0${"\0".repeat(100)}ustar\x0000${"\0".repeat(80)}${prefix.padEnd(155, "\0")}`;
  const sum = Array.from(`${before}        ${after}`, (one) => one.charCodeAt(0)).reduce((all, one) => all + one, 0);
  return `${before}${sum.toString(8).padStart(6, "0")}\0 ${after}`.padEnd(BLOCK, "\0");
}
