// Compares the output on a page with that of a command. `…` in a line matches any text in it, a line of `…` alone any
// lines, and blank lines are ignored.

const lines = (text) =>
  text
    .replaceAll("\r", "")
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "");

const ANY = /^\s*…$/;
const pattern = (line) => new RegExp(`^${line.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*?")}$`, "u");

/** Returns the difference between `actual` and `expected`, or undefined if there is none. */
export function difference(expected, actual) {
  const [want, got] = [lines(expected), lines(actual)];
  let furthest = 0;
  const fits = (at, from) => {
    furthest = Math.max(furthest, at);
    if (at === want.length) return from === got.length;
    if (ANY.test(want[at])) {
      for (let next = from; next <= got.length; next += 1) if (fits(at + 1, next)) return true;
      return false;
    }
    return from < got.length && pattern(want[at]).test(got[from]) && fits(at + 1, from + 1);
  };
  if (fits(0, 0)) return undefined;
  return `the page says\n  ${want[furthest] ?? "nothing more"}\nand there is\n  ${got.join("\n  ")}`;
}
