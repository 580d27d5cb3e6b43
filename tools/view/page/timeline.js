// When output came, and when there was none: as the process that runs the task has seen it, and since the last of that as this page has.

/** maxSamples bounds the samples: above it, every second one is dropped. */
const maxSamples = 2000;

/** silentAfter is the least pause, in milliseconds, that counts as silence. */
const silentAfter = 5000;

/** Timeline has samples of [ms since the beginning, bytes so far], by the clock of the server. Only between stored ones is it known that nothing came. */
class Timeline {
  constructor(box, text) {
    Object.assign(this, {box, text});
    this.clear();
  }

  clear() {
    this.stored = [];
    this.seen = [];
    this.box.replaceChildren();
    say(this.text, "");
  }

  /** sight notes how much a task has written by now. */
  sight(task, bytes) {
    if (ended(task.status) || bytes <= (this.seen.at(-1)?.[1] ?? 0)) return;
    if (this.seen.push([task.durationMs, bytes]) > maxSamples) this.seen = this.seen.filter((_, k) => k % 2);
  }

  draw(task) {
    const span = Math.max(1, task.durationMs), width = 1000, height = 40, {stored} = this, over = ended(task.status);
    const x = ms => Math.min(width, Math.max(0, ms / span * width)), known = stored.at(-1) ?? [0, 0];
    const all = [...stored, ...this.seen.filter(([ms, bytes]) => ms > known[0] && bytes > known[1])];
    if (!all.length) return this.box.replaceChildren();
    const columns = new Float64Array(200);
    all.forEach(([ms, bytes], k) => { columns[Math.min(199, Math.floor(x(ms) / 5))] += bytes - (all[k - 1]?.[1] ?? 0); });
    const silences = [];
    let from = 0;
    for (const [ms] of over && stored.length ? [...stored, [span]] : stored) {
      if (ms - from >= Math.max(silentAfter, span / 100)) silences.push([from, ms]);
      from = ms;
    }
    const most = Math.max(1, ...columns);
    const picture = draw("svg", {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img"});
    for (const [a, b] of silences) picture.append(draw("rect", {class: "quiet", x: x(a), y: 0, width: x(b) - x(a), height}));
    columns.forEach((bytes, k) => {
      if (!bytes) return;
      const tall = Math.max(4, Math.log1p(bytes) / Math.log1p(most) * (height - 2));
      picture.append(draw("rect", {class: "out", x: k * 5, y: height - tall, width: 4, height: tall}));
    });
    const longest = silences.reduce((m, [a, b]) => Math.max(m, b - a), 0), parts = [];
    if (silences.length) parts.push(`Silent ${silences.length > 1 ? `${silences.length} times, for up to` : "once, for"} ${duration(longest)}.`);
    else if (over) parts.push(`Output over ${duration(span)}.`);
    if (!over) parts.push(`Last output ${span - all.at(-1)[0] < 1000 ? "just now" : `${duration(span - all.at(-1)[0])} ago`}.`);
    const text = parts.join(" ");
    picture.setAttribute("aria-label", `When output came, in ${duration(span)}. ${text}`);
    this.box.replaceChildren(picture);
    say(this.text, text);
  }
}
