// Keeps a page up to date while it is looked at, says times in the viewer's own zone, keeps their
// views, suggests names, shows a group beside the list, and lets a slider choose the moment.
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

  // Times are of the zone that was chosen; beside UTC in full comes the hour of the viewer's own.
  const make = (tag, words) => Object.assign(document.createElement(tag), { textContent: words });
  const remember = (name, value) => {
    const age = value ? 31536000 : 0;
    document.cookie = `${name}=${encodeURIComponent(value)};path=/;max-age=${age};samesite=strict`;
    location.reload();
  };
  const zone = document.querySelector("[data-zone]");
  if (zone) {
    zone.hidden = false;
    zone.title = "change between UTC and your own zone";
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    zone.onclick = () => remember("zone", zone.dataset.zone === "UTC" ? own : "");
  }
  const two = "2-digit", digits = { month: two, day: two, hour: two, minute: two, second: two };
  const localize = () => {
    if (zone && zone.dataset.zone !== "UTC") return;
    for (const one of main.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(one.dateTime);
      if (isNaN(at) || !at.getTimezoneOffset()) continue;
      one.dataset.local = "";
      const here = at.toLocaleString("sv", { year: "numeric", ...digits, timeZoneName: "short" });
      one.title = `${one.title || one.textContent + " UTC"}; here ${here}`;
      if (one.dataset.full !== undefined) one.append(make("small", ` (${here.slice(11)})`));
    }
  };
  const mine = () => {
    const button = main.querySelector("[data-mine]");
    if (!button) return;
    button.hidden = false;
    button.onclick = () => remember("mine", button.dataset.mine);
  };

  // The search suggests what the viewer may see; a name that was suggested leads to its page.
  const find = document.querySelector("[data-suggest]"), links = new Map();
  let asked = 0;
  if (find) find.oninput = async () => {
    if (links.has(find.value)) { location.assign(links.get(find.value)); return; }
    const number = ++asked, query = new URLSearchParams(new FormData(find.form));
    await new Promise((done) => setTimeout(done, 150));
    if (number !== asked || find.value.trim().length < 2) return;
    const answer = await fetch(`/suggest?${query}`).catch(() => null);
    if (!answer || !answer.ok || number !== asked) return;
    links.clear();
    for (const one of await answer.json()) links.set(one.name, one.link);
    find.list.replaceChildren(...[...links.keys()].map((name) => new Option(name, name)));
  };

  // A group's story beside the list: the page of the link, shown in a panel.
  const panel = Object.assign(document.createElement("aside"), { hidden: true });
  const close = make("button", "×");
  close.setAttribute("aria-label", "close");
  let opener = null;
  close.onclick = () => { panel.hidden = true; opener?.focus(); };
  panel.setAttribute("aria-label", "A group beside the list");
  document.querySelector("main").after(panel);
  main.addEventListener("click", async (event) => {
    const link = event.target.closest("tbody a[href^='/groups/']");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || innerWidth < 1000) return;
    event.preventDefault();
    const answer = await fetch(link.href).catch(() => null);
    if (!answer || !answer.ok) { location.assign(link.href); return; }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const whole = Object.assign(make("a", "whole page"), { href: link.href });
    panel.replaceChildren(close, " ", whole, ...page.querySelector("main").childNodes);
    panel.hidden = false;
    opener = link;
    close.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) close.onclick();
  });

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
  const dress = () => { localize(); mine(); views(); slide(); };
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
