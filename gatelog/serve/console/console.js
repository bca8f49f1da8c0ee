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
  let due = false, busy = false;
  const refresh = async () => {
    if (busy || document.hidden || live.contains(document.activeElement)
        && document.activeElement.matches("input, select")) { due = true; return; }
    busy = true; due = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        live.replaceChildren(...page.querySelector("main").childNodes);
      }
    } finally { setTimeout(() => { busy = false; if (due) refresh(); }, 5000); }
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden && due) refresh(); });
  new EventSource(live.dataset.live).addEventListener("change", refresh);
})();
