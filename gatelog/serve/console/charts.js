// Pictures say their values: under the pointer, and by the arrow keys once a picture has the focus.
// A drag over an axis of time zooms; + and - zoom around the value that is read.
(() => {
  "use strict";
  const read = (chart, one) => {
    chart.querySelector(".read")?.classList.remove("read");
    one.classList.add("read");
    let output = chart.querySelector("output");
    if (!output) {
      output = document.createElement("output");
      chart.querySelector("svg").before(output);
    }
    output.textContent = one.querySelector("title").textContent;
  };
  const values = (chart) => [...chart.querySelectorAll("svg :not(text) > title")]
    .map((one) => one.parentElement);
  const times = (chart) => [chart.dataset.since, chart.dataset.until].map((one) => Date.parse(one));
  const go = (begin, end) => {
    if (end - begin < 1000) return;
    const url = new URL(location.href);
    for (const one of ["at", "hours", "offset", "range"]) url.searchParams.delete(one);
    for (const [name, at] of [["since", begin], ["until", Math.min(end, Date.now())]]) {
      url.searchParams.set(name, new Date(at).toISOString().slice(0, 19) + "Z");
    }
    location.assign(url);
  };
  document.addEventListener("pointermove", (event) => {
    const one = event.target.closest?.(".chart > svg :is(.mark, rect)");
    if (one?.querySelector("title")) read(one.closest(".chart"), one);
  });
  document.addEventListener("keydown", (event) => {
    const chart = document.activeElement;
    if (!chart?.matches(".chart") || event.ctrlKey || event.altKey || event.metaKey) return;
    const all = values(chart), at = all.indexOf(chart.querySelector(".read"));
    const lane = (one) => all.findIndex((each) => each.closest("g") === one.closest("g"));
    const lanes = [...new Set(all.map(lane))], row = at < 0 ? -1 : lanes.indexOf(lane(all[at]));
    const to = {
      ArrowRight: at + 1, ArrowLeft: at < 0 ? all.length - 1 : at - 1, Home: 0, End: all.length - 1,
      ArrowDown: lanes[row + 1] ?? at, ArrowUp: lanes[row - 1] ?? at,
    }[event.key];
    if (to !== undefined && all.length) {
      event.preventDefault();
      read(chart, all[Math.min(Math.max(to, 0), all.length - 1)]);
    } else if ("+-".includes(event.key) && chart.dataset.since) {
      const [begin, end] = times(chart), place = chart.querySelector("svg").getBoundingClientRect();
      const box = all[at]?.getBoundingClientRect();
      const middle = box ? (box.left + box.width / 2 - place.left) / place.width : 0.5;
      const half = (end - begin) * (event.key === "+" ? 0.25 : 1), centre = begin + (end - begin) * middle;
      go(centre - half, centre + half);
    }
  });
  document.addEventListener("pointerdown", (event) => {
    const svg = event.target.closest?.(".chart[data-since] > svg");
    if (!svg || event.button || event.target.closest("a")) return;
    const place = svg.getBoundingClientRect(), [begin, end] = times(svg.parentElement);
    const part = (one) => Math.min(Math.max((one.clientX - place.left) / place.width, 0), 1);
    const from = part(event), box = document.createElementNS(svg.namespaceURI, "rect");
    const stop = new AbortController(), { signal } = stop;
    box.setAttribute("class", "drag");
    box.setAttribute("height", "100%");
    svg.append(box);
    const move = (one) => {
      box.setAttribute("x", `${100 * Math.min(from, part(one))}%`);
      box.setAttribute("width", `${100 * Math.abs(from - part(one))}%`);
    };
    const done = (one) => {
      stop.abort();
      box.remove();
      const ends = [from, part(one)].sort((a, b) => a - b).map((each) => begin + each * (end - begin));
      if (one.type === "pointerup" && Math.abs(from - part(one)) > 0.01) go(...ends);
    };
    addEventListener("pointermove", move, { signal });
    addEventListener("pointerup", done, { signal });
    addEventListener("pointercancel", done, { signal });
    event.preventDefault();
    svg.parentElement.focus({ preventScroll: true });
  });
})();
