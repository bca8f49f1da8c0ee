// Keeps a page up to date while it is looked at, says times in the viewer's own zone, keeps their
// views, and lets a slider choose the moment. "/" goes to the search field.
(() => {
  "use strict";
  const main = document.querySelector("main");
  document.addEventListener("keydown", (event) => {
    const field = document.querySelector("input[name=name]");
    if (event.key === "/" && field && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      field.focus();
    }
  });

  // Times are UTC; beside those in full comes the hour of the viewer's own zone.
  const make = (tag, words) => Object.assign(document.createElement(tag), { textContent: words });
  const two = "2-digit", digits = { month: two, day: two, hour: two, minute: two, second: two };
  const localize = () => {
    for (const one of main.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(one.dateTime);
      if (isNaN(at) || !at.getTimezoneOffset()) continue;
      one.dataset.local = "";
      const here = at.toLocaleString("sv", { year: "numeric", ...digits, timeZoneName: "short" });
      one.title = `${one.title || one.textContent + " UTC"}; here ${here}`;
      if (one.dataset.full !== undefined) one.append(make("small", ` (${here.slice(11)})`));
    }
  };

  // Views: links of one's own, kept by this browser.
  const views = () => {
    const list = main.querySelector("[data-views]");
    if (!list) return;
    const key = `gatelog-${list.dataset.views}`;
    const read = () => { try { return JSON.parse(localStorage.getItem(key)) || {}; } catch { return {}; } };
    const keep = (kept) => { localStorage.setItem(key, JSON.stringify(kept)); location.reload(); };
    for (const [name, query] of Object.entries(read())) {
      const item = make("li", ""), link = make("a", `★ ${name}`), drop = make("button", "×");
      link.href = location.pathname + query;
      if (query === location.search) link.setAttribute("aria-current", "true");
      drop.type = "button";
      drop.setAttribute("aria-label", `forget the view ${name}`);
      drop.onclick = () => { const kept = read(); delete kept[name]; keep(kept); };
      item.append(link, " ", drop);
      list.append(item);
    }
    const save = make("button", "Save this view"), item = make("li", "");
    save.type = "button";
    save.onclick = () => {
      const name = prompt("Name of the view");
      if (name) keep({ ...read(), [name]: location.search });
    };
    item.append(save);
    list.append(item);
  };

  // A slider over time: the page of the moment replaces this one, without a reload.
  const slide = () => {
    const slider = main.querySelector("input[data-slider]");
    if (!slider) return;
    const output = slider.form.querySelector("output");
    const at = () => new Date(Number(slider.value) * 1000).toISOString().slice(0, 19) + "Z";
    slider.oninput = () => { output.textContent = at().replace("T", " ").replace("Z", " UTC"); };
    slider.onchange = async () => {
      const url = new URL(location.href);
      url.searchParams.set("at", at());
      if (Number(slider.value) >= Number(slider.max)) url.searchParams.delete("at");
      location.replace(url);
    };
  };
  const dress = () => { localize(); views(); slide(); };
  dress();

  const live = document.querySelector("main[data-live]");
  if (!live || !window.EventSource) return;
  // What was focused and how far things were scrolled stays, by the order of elements of a kind.
  const places = "a, button, input, [tabindex]";
  const replace = (page) => {
    const before = [...live.querySelectorAll(places)], at = before.indexOf(document.activeElement);
    const href = at >= 0 && before[at].getAttribute("href");
    const scrolled = before.map((one) => one.scrollLeft);
    live.replaceChildren(...page.querySelector("main").childNodes);
    dress();
    const now = [...live.querySelectorAll(places)];
    now.forEach((one, i) => { if (one.tagName !== "A") one.scrollLeft = scrolled[i] || 0; });
    const same = now.find((one) => href && one.getAttribute("href") === href) || now[at];
    if (at >= 0 && same) same.focus({ preventScroll: true });
  };
  let due = false, busy = false, opened = false;
  const refresh = async () => {
    if (busy || document.hidden || live.contains(document.activeElement)
        && document.activeElement.matches("input, select")) { due = true; return; }
    busy = true; due = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { /* The server is away: the stream below says when it is back. */ } finally {
      setTimeout(() => { busy = false; if (due) refresh(); }, 5000);
    }
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden && due) refresh(); });
  const stream = new EventSource(live.dataset.live);
  stream.addEventListener("change", refresh);
  // No message said what changed while the stream was away.
  stream.addEventListener("open", () => { if (opened) refresh(); opened = true; });
})();
