// What a page prints, held against what a command prints. `…` in a line stands for anything in it, a line of `…` alone for
// any lines, and blank lines are not looked at.

const lines = (text) =>
  text
    .replaceAll("\r", "")
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "");

const ANY = /^\s*…$/;
const pattern = (line) => new RegExp(`^${line.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*?")}$`, "u");

/** How `actual` differs from what `expected` says, or undefined where it does not. */
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
