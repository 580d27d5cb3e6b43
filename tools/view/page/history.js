// How long the last runs of a tool took, and how they ended: a plot, and the same as a table for people who cannot see it or want to open one.

/** showHistory draws the runs, the newest at the right; open(id) opens one. */
function showHistory(runs, current, open) {
  const list = [...runs].reverse(), width = 1000, height = 40, step = width / Math.max(list.length, 20);
  const longest = Math.max(1, ...list.map(run => run.durationMs));
  const count = {};
  for (const run of list) count[run.status] = (count[run.status] ?? 0) + 1;
  const took = list.filter(run => ended(run.status)).map(run => run.durationMs).sort((a, b) => a - b);
  let text = list.length ? `${list.length} ${list.length === 1 ? "run" : "runs"}: ${Object.entries(count).map(([status, n]) => `${n} ${statusWord(status)}`).join(", ")}.` : "No runs are kept.";
  if (took.length > 1) text += ` Median ${duration(took[took.length >> 1])}, longest ${duration(took.at(-1))}.`;
  const picture = draw("svg", {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `Durations of the last runs. ${text}`});
  picture.append(draw("line", {class: "axis", x1: 0, x2: width, y1: height - .5, y2: height - .5}));
  list.forEach((run, k) => {
    const tall = Math.max(3, run.durationMs / longest * (height - 6)), x = k * step + step * .12, y = height - tall;
    const kind = Object.hasOwn(STATUS, run.status) ? run.status : "";
    const bar = draw("rect", {class: `${kind}${run.taskId === current ? " this" : ""}`, x, y, width: step * .76, height: tall});
    bar.append(draw("title", {}, `${new Date(run.createdAt).toLocaleString()}: ${statusWord(run.status)}, ${duration(run.durationMs)}`));
    picture.append(bar);
    if (run.status === "failed") picture.append(draw("path", {class: "failed", d: `M${x} ${Math.max(0, y - 5)}h${step * .76}v2h${-step * .76}z`})); // not by colour alone
  });
  at("plot").replaceChildren(picture);
  const short = Object.entries(count).map(([status, n]) => `${n} ${STATUS[status] ?? status}`);
  say(at("runs-text"), [`${list.length} ${list.length === 1 ? "run" : "runs"}`, ...short, took.length > 1 && `median ${duration(took[took.length >> 1])}`].filter(Boolean).join(" · "));
  at("runs-body").replaceChildren(...runs.map(run => make("tr", {},
    make("td", {}, make("button", {type: "button", textContent: new Date(run.createdAt).toLocaleString(), onclick: () => open(run.taskId)})),
    make("td", {textContent: `${STATUS[run.status] ?? ""} ${statusWord(run.status)}`}),
    make("td", {textContent: duration(run.durationMs)}))));
}
