// Makes characters visible that draw nothing, move a cursor or reorder the text around them. Everything that the page
// shows passes through `visible`, so that what an agent sends can neither hide nor pretend to be something else.

const INVISIBLE = new RegExp(
  [
    String.raw`[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f]`,
    String.raw`[\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]`,
    String.raw`[\ud800-\udfff]|[\u{e0000}-\u{e0fff}]`,
  ].join("|"),
  "gu",
);

const CONTROLS = [
  ..."NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI".split(" "),
  ..."DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(" "),
];

/**
 * Replaces each invisible character with its name: `⟨ESC⟩`, or `⟨U+202E⟩` for a right-to-left override. Line feeds and
 * tabs stay. The symbols of Unicode for controls (`␛`) are missing in many fonts.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(INVISIBLE, nameOf);
}

/** @param {string} character */
function nameOf(character) {
  const code = character.codePointAt(0) ?? 0;
  return `\u27e8${CONTROLS[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`}\u27e9`;
}

/**
 * Returns the beginning of a text for one line of a list: line feeds and tabs become symbols. The rest is cut off
 * before anything else is done, because it can be millions of characters.
 * @param {string} text
 * @param {number} limit
 */
export function oneLine(text, limit) {
  const line = text.slice(0, limit).replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5");
  return text.length > limit ? `${line}\u2026` : line;
}

/**
 * Divides a sentence at its backticks; one without another stays as it is.
 * @param {string} text
 * @returns {{ text: string, isCode: boolean }[]}
 */
export function codeParts(text) {
  return text
    .split(/(`[^`]+`)/)
    .filter((part) => part !== "")
    .map((part) => (/^`[^`]+`$/.test(part) ? { text: part.slice(1, -1), isCode: true } : { text: part, isCode: false }));
}
