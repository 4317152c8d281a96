// Reads the gateway's metrics (text format of Prometheus) and computes rates and quantiles from two readings.

/** @typedef {{ name: string, labels: Record<string, string>, value: number }} Sample */
/** @typedef {{ at: number, values: Map<string, Sample> }} Reading   by name and labels as written */

const LINE = /^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/**
 * @param {string} text
 * @param {number} at  time of the reading, in milliseconds
 * @returns {Reading}
 */
export function parseMetrics(text, at) {
  /** @type {Map<string, Sample>} */
  const values = new Map();
  for (const line of text.split("\n")) {
    const [, name, written = "", value] = LINE.exec(line) ?? [];
    if (name === undefined) continue;
    const labels = Object.fromEntries(Array.from(written.matchAll(LABEL), ([, key, text]) => [key, unescape(text)]));
    values.set(name + written, { name, labels, value: Number(value.replace("Inf", "Infinity")) });
  }
  return { at, values };
}

/** @param {string} text */
function unescape(text) {
  return text.replace(/\\(.)/g, (_, character) => (character === "n" ? "\n" : character));
}

/**
 * Returns the samples of a metric.
 * @param {Reading} reading
 * @param {string} name
 */
export function samplesOf(reading, name) {
  return [...reading.values.values()].filter((sample) => sample.name === name);
}

/**
 * Adds the samples of a metric up by what `key` returns for their labels.
 * @param {Sample[]} samples
 * @param {(labels: Record<string, string>) => string} key
 */
export function sumBy(samples, key) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const { labels, value } of samples) {
    const name = key(labels);
    sums.set(name, (sums.get(name) ?? 0) + value);
  }
  return sums;
}

/**
 * Returns by how much each sample of a metric grew. A counter that fell began again, with the gateway.
 * @param {Reading} before
 * @param {Reading} now
 * @param {string} name
 * @returns {Sample[]}
 */
export function growth(before, now, name) {
  const samples = [];
  for (const [key, sample] of now.values) {
    if (sample.name !== name) continue;
    const earlier = before.values.get(key)?.value ?? 0;
    samples.push({ ...sample, value: sample.value < earlier ? sample.value : sample.value - earlier });
  }
  return samples;
}

/** Values of which a quantile within a bucket is no more than a guess. */
const FEW = 20;

/**
 * Returns a quantile of a histogram, interpolated in its bucket as `histogram_quantile` does; null without values. Of
 * few values, no more is known than their bucket: `sign` says that it is a bound.
 * @param {Sample[]} buckets  samples of `…_bucket` or their growth; several series are added up
 * @param {number} quantile
 */
export function quantileOf(buckets, quantile) {
  const bounds = [...sumBy(buckets, ({ le }) => le)]
    .map(([le, within]) => ({ bound: Number(le.replace("+Inf", "Infinity")), within }))
    .sort((one, other) => one.bound - other.bound);
  const total = bounds.at(-1)?.within ?? 0;
  const rank = total * quantile;
  if (rank === 0) return null;
  let below = { bound: 0, within: 0 };
  for (const bucket of bounds) {
    if (bucket.within >= rank) {
      if (bucket.bound === Infinity) return { sign: "> ", value: below.bound };
      if (total < FEW) return { sign: "\u2264 ", value: bucket.bound };
      const share = (rank - below.within) / (bucket.within - below.within);
      return { sign: "", value: below.bound + (bucket.bound - below.bound) * share };
    }
    below = bucket;
  }
  return { sign: "> ", value: below.bound };
}
