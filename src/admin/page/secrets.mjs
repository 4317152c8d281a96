// Masks what looks like a secret in data that a person takes along, and counts what was masked. The forms are those of
// src/telemetry/mask.rs, and addresses of people. It is a guess: a secret without such a form stays.
import { readJson } from "./json_members.mjs";

const MASK = "***";

/** Characters of a text that are searched. Patterns look back at a bounded number, so that none takes the square of them. */
const MOST_TEXT = 64 << 10;

/** A word in these has a secret value; `max_tokens` and the like are numbers. */
const SECRET_NAME =
  /(?:password|passwd|passphrase|pwd|secret|token(?!s)|api[-_ ]?key|access[-_ ]?key|private[-_ ]?key|authorization|credential|cookie|session[-_ ]?id|signature)/i;

/**
 * Each finds its secrets behind what the lookbehind keeps.
 * @type {[name: string, pattern: RegExp][]}
 */
const FORMS = [
  ["private_key", /-----BEGIN [\s\S]*?(?:-----END [^-]*-----|$)/g],
  ["url", /(?<=:\/\/)[^\s"'`<>/@]+(?=@)/g],
  ["credential", /(?<=\b(?:bearer|basic) {1,8})[^\s"'`,;\\]{8,}/gi],
  ["jwt", /\beyJ[\w-]{1,2048}\.[\w.-]*/g],
  [
    "token",
    /(?<![\w-])(?:sk-|sk_|pk_|rk_|ghp_|gho_|ghu_|ghs_|github_pat_|glpat-|xoxb-|xoxp-|xapp-|hf_|AKIA|ASIA|AIza|ya29\.|npm_|pypi-|dop_v1_|LTAI|AKID)[\w.-]{8,}/g,
  ],
  ["email", /[\w.+%-]{1,64}@[a-z\d-]+(?:\.[a-z\d-]+)+/gi],
  // `name=value` and `name: value` within a text, as in a header field, a query or a file of settings. A scheme has its
  // credential behind it, which was masked before or is a placeholder.
  [
    "named",
    new RegExp(`(?<=${SECRET_NAME.source}[\\w-]{0,64}\\\\{0,4}["']?\\s{0,8}[:=]\\s{0,8}\\\\{0,4}["']?)(?!(?:\\x60authorization: )?(?:bearer|basic) +(?:[*]{3}|<))[^\\s"'\u201d\\\\&,;]+`, "gi"),
  ],
  ["random", /[A-Za-z\d+/_-]{20,}={0,2}/g],
];

/** Members that hold ids of messages, calls and runs. */
const ID_NAME = /(?:^i|I|_i)ds?$/;

/** Names a run or a message, and is no key. */
const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;

export class SecretMask {
  /** How often each form was masked. @type {Map<string, number>} */
  counts = new Map();

  /**
   * Masks data: within JSON also the values of members whose names say that they are secret. The end of long data is
   * cut off.
   * @param {string} data
   */
  maskData(data) {
    const value = data.length > MOST_TEXT ? undefined : readJson(data);
    if (typeof value !== "object" || value === null) return this.maskText(data);
    const before = this.#total;
    const masked = JSON.stringify(this.#maskValue(value, ""));
    // Numbers and escapes stay as they were sent.
    return this.#total === before ? data : masked;
  }

  /** @param {string} text */
  maskText(text) {
    return this.#mask(text, FORMS);
  }

  /**
   * Masks a text in which ids stand, which may look random.
   * @param {string} text
   */
  maskId(text) {
    return this.#mask(text, FORMS.filter(([name]) => name !== "random"));
  }

  /**
   * Masks a sentence of the gateway, which names credentials and has none behind their names.
   * @param {string} text
   */
  maskSentence(text) {
    return this.#mask(text, FORMS.filter(([name]) => !["random", "named", "credential"].includes(name)));
  }

  /**
   * @param {string} text
   * @param {typeof FORMS} forms
   */
  #mask(text, forms) {
    let masked = text.slice(0, MOST_TEXT);
    for (const [name, pattern] of forms)
      masked = masked.replace(pattern, (found) => {
        if (found === MASK || (name === "random" && !isRandom(found))) return found;
        this.#count(name);
        return MASK;
      });
    return masked;
  }

  /**
   * @param {unknown} value
   * @param {string} name  of the member
   * @returns {unknown}
   */
  #maskValue(value, name) {
    if (typeof value === "string") {
      if (!SECRET_NAME.test(name)) return ID_NAME.test(name) ? this.maskId(value) : this.#maskString(value);
      if (value !== "" && value !== MASK) this.#count("named");
      return value === "" ? value : MASK;
    }
    if (Array.isArray(value)) return value.map((one) => this.#maskValue(one, name));
    if (typeof value !== "object" || value === null) return value;
    // The name of a member can be one, too: that of a person in a map.
    const members = Object.entries(value).map(([key, one]) => [this.maskId(key), this.#maskValue(one, key)]);
    return Object.fromEntries(members);
  }

  /**
   * Masks a text, which is JSON itself in arguments of calls.
   * @param {string} text
   */
  #maskString(text) {
    return /^\s*[[{]/.test(text) ? this.maskData(text) : this.maskText(text);
  }

  get #total() {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** @param {string} name */
  #count(name) {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }
}

/**
 * Returns whether a long word is a mixture that nobody writes: letters and digits, of both cases or very long.
 * @param {string} word
 */
function isRandom(word) {
  if (UUID.test(word)) return false;
  if (/^[\da-f]{32,}$/i.test(word)) return true;
  const [digit, upper, lower] = [/\d/, /[A-Z]/, /[a-z]/].map((kind) => kind.test(word));
  if (!digit || !(upper || lower)) return false;
  // A path or a name of several words changes its kind rarely.
  const changes = word.match(/[A-Za-z](?=\d)|\d(?=[A-Za-z])|[a-z](?=[A-Z])|[A-Z](?=[A-Z][a-z])/g)?.length ?? 0;
  return word.length >= (upper && lower ? 20 : 32) && changes * 6 >= word.length;
}
