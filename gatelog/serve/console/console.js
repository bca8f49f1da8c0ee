// Keeps a page up to date while it is looked at, and "/" goes to the search field.
(() => {
  "use strict";
  document.addEventListener("keydown", (event) => {
    const field = document.querySelector("input[name=name]");
    if (event.key === "/" && field && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      field.focus();
    }
  });
  const live = document.querySelector("main[data-live]");
  if (!live || !window.EventSource) return;
  // What was focused and how far things were scrolled stays, by the order of elements of a kind.
  const places = "a, [tabindex]";
  const replace = (page) => {
    const before = [...live.querySelectorAll(places)], at = before.indexOf(document.activeElement);
    const href = at >= 0 && before[at].getAttribute("href");
    const scrolled = before.map((one) => one.scrollLeft);
    live.replaceChildren(...page.querySelector("main").childNodes);
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
  // Nobody said what changed while the stream was away.
  stream.addEventListener("open", () => { if (opened) refresh(); opened = true; });
})();
