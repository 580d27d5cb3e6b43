// When output came, and when there was none: coarsely as stored with the task, and from then on as this page has seen it.

/** maxSamples bounds the samples: above it, every second one is dropped. */
const maxSamples = 2000;

/** silentAfter is the least pause, in milliseconds, that counts as silence. */
const silentAfter = 5000;

/** sightings holds what was seen of each running task, also in the list: [ms, bytes so far], and since when. */
const sightings = new Map(), maxTasks = 200;

/** sight notes how much a task has written by now. A task that has just begun counts as watched from its beginning. */
function sight(task, bytes = task.bytes) {
  let s = sightings.get(task.taskId);
  if (!s) {
    const begin = Date.parse(task.createdAt), age = Date.now() - begin;
    if (ended(task.status)) return {since: Date.now(), samples: []};
    sightings.set(task.taskId, s = {since: age < 4000 ? begin : Date.now(), samples: age < 4000 ? [[begin, 0]] : []});
    if (sightings.size > maxTasks) sightings.delete(sightings.keys().next().value);
  }
  if (bytes > (s.samples.at(-1)?.[1] ?? -1) && s.samples.push([Date.now(), bytes]) > maxSamples) s.samples = s.samples.filter((_, k) => k % 2 || k === s.samples.length - 1);
  return s;
}

class Timeline {
  constructor(box, text) {
    Object.assign(this, {box, text, stored: []}); // stored: [ms since the beginning, bytes so far]
  }

  clear() {
    this.stored = [];
    this.box.replaceChildren();
    say(this.text, "");
  }

  draw(task) {
    const begin = Date.parse(task.createdAt), end = ended(task.status) ? begin + task.durationMs : Math.max(Date.now(), begin + 1);
    const span = Math.max(1, end - begin), width = 1000, height = 50;
    const x = ms => Math.min(width, Math.max(0, (ms - begin) / span * width));
    const {since, samples} = sight(task), stored = this.stored.map(([ms, bytes]) => [begin + ms, bytes]), last = stored.at(-1);
    const known = last ? begin : Math.max(begin, Math.min(since, end));
    const all = last ? [[begin, 0], ...stored, ...samples.filter(([ms, bytes]) => ms > last[0] && bytes > last[1])] : samples;
    const seen = all.map(([ms, bytes]) => [Math.min(Math.max(ms, begin), end), bytes]); // the last of it is seen after its end
    const columns = new Float64Array(200);
    let before = 0;
    for (const [k, [ms, bytes]] of seen.entries()) {
      if (k) columns[Math.min(199, Math.floor(x(ms) / 5))] += bytes - before;
      before = bytes;
    }
    const most = Math.max(1, ...columns);
    const picture = draw("svg", {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img"});
    const silences = [];
    let from = known;
    for (const [ms] of [...seen, [end]]) {
      if (ms - from >= Math.max(silentAfter, span / 100)) silences.push([from, ms]);
      from = Math.max(from, ms);
    }
    for (const [a, b] of silences) picture.append(draw("rect", {class: "quiet", x: x(a), y: 0, width: x(b) - x(a), height}));
    if (known > begin) {
      for (let k = 0; k < x(known); k += 12) picture.append(draw("line", {class: "unseen", x1: k, y1: height, x2: Math.min(k + 12, x(known)), y2: 0}));
    }
    columns.forEach((bytes, k) => {
      if (!bytes) return;
      const tall = Math.max(4, Math.log1p(bytes) / Math.log1p(most) * (height - 2));
      picture.append(draw("rect", {class: "out", x: k * 5, y: height - tall, width: 4, height: tall}));
    });
    const longest = silences.reduce((m, [a, b]) => Math.max(m, b - a), 0);
    const parts = [];
    if (known >= end && ended(task.status)) parts.push(`Not known: the run was short${span < 1000 ? "" : ", or is from an older runnel"}.`);
    else if (known > begin + 1000) parts.push(`The hatched part is from before ${clock(known)}, when this page began to watch.`);
    if (known < end) {
      parts.push(silences.length > 1 ? `Silent ${silences.length} times, for up to ${duration(longest)}.` : silences.length ? `Silent once, for ${duration(longest)}.` : "Never silent for long.");
      const last = seen.at(-1);
      if (last && !ended(task.status)) parts.push(`Last output ${end - last[0] < 1000 ? "just now" : `${duration(end - last[0])} ago`}.`);
    }
    const text = parts.join(" ");
    picture.setAttribute("aria-label", `Output over ${duration(span)}. ${text}`);
    this.box.replaceChildren(picture, make("div", {className: "ends facts", ariaHidden: "true"}, make("span", {textContent: "0"}), make("span", {textContent: duration(span)})));
    say(this.text, text);
  }
}
