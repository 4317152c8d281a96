// Writes numbers, sizes and times for people.

/** Made once, since making it takes longer than drawing a line. */
const GROUPED = new Intl.NumberFormat("en-US");

/** @param {number} value */
export function count(value) {
  return GROUPED.format(value);
}

/** @param {number} value */
export function bytes(value) {
  if (value < 1000) return `${value} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let unit = -1;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(value < 99.95 ? 1 : 0)} ${units[unit]}`;
}

const encoder = new TextEncoder();

/**
 * Returns the bytes of a text in UTF-8, as the gateway counts them.
 * @param {string} text
 */
export function sizeOf(text) {
  return encoder.encode(text).length;
}

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined) return "\u2013";
  if (ms < 1000) return `${Math.round(ms * 10) / 10} ms`;
  if (ms < 99_950) return `${(ms / 1000).toFixed(2)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}

/**
 * Returns the time of day; with the date if it is another day.
 * @param {number} ms since 1970
 */
export function clock(ms) {
  const at = new Date(ms);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

/** @param {number} perSecond */
export function rate(perSecond) {
  return perSecond < 100 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}
