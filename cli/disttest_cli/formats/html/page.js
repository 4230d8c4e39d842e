"use strict";
(() => {
  const CHUNK = 100;
  const root = document.documentElement;
  const find = (selector) => document.querySelector(selector);

  function remember(theme) {
    try {
      if (theme) localStorage.setItem("disttest-theme", theme);
      return localStorage.getItem("disttest-theme");
    } catch {
      return null; // a page from a file may have no storage
    }
  }

  function themes() {
    const button = find("#theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const current = () => root.dataset.theme || (system.matches ? "dark" : "light");
    const say = () => { button.textContent = current() === "dark" ? "Light theme" : "Dark theme"; };
    const kept = remember();
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
    button.addEventListener("click", () => {
      root.dataset.theme = current() === "dark" ? "light" : "dark";
      remember(root.dataset.theme);
      say();
    });
    system.addEventListener("change", say);
    say();
    button.hidden = false;
  }

  function failures() {
    const section = find("#failures");
    if (!section) return;
    const tools = section.querySelector(".tools");
    tools.hidden = false;
    tools.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      for (const one of section.querySelectorAll("details.case")) one.open = Boolean(button.dataset.expand);
    });
  }

  // A link to a case opens it.
  function follow() {
    const target = location.hash.startsWith("#case-") && document.getElementById(location.hash.slice(1));
    if (!target) return;
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus({ preventScroll: true });
  }

  function prints() {
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = [...document.querySelectorAll("details:not([open])")];
      for (const one of opened) one.open = true;
    });
    addEventListener("afterprint", () => {
      for (const one of opened) one.open = false;
    });
  }

  function cases() {
    const table = find("#all");
    const form = find(".filters");
    const rows = [...table.querySelectorAll("tbody tr")];
    const entries = rows.map((row, order) => ({
      row,
      order,
      text: `${row.cells[1].textContent}\n${row.cells[2].textContent}`.toLowerCase(),
      outcome: row.cells[0].textContent.trim(),
      also: row.dataset.also || "",
      suite: row.cells[1].textContent.trim(),
      time: Number(row.dataset.t),
    }));
    let longest = 0; // 1: the longest first, -1: the shortest first, 0: in the order of the run

    function matching() {
      const wanted = find("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
      const outcome = find("#outcome").value;
      const suite = find("#suite").value.trim();
      const found = entries.filter((one) =>
        (!outcome || one.outcome === outcome || one.also === outcome) &&
        (!suite || one.suite === suite) &&
        wanted.every((word) => one.text.includes(word)));
      if (longest) found.sort((one, other) => longest * (other.time - one.time) || one.order - other.order);
      return found;
    }

    function show() {
      const found = matching();
      const bodies = [];
      for (let first = 0; first < found.length; first += CHUNK) {
        const body = document.createElement("tbody");
        if (first + CHUNK < found.length) body.className = "long"; // the last, shorter chunk is laid out immediately
        body.append(...found.slice(first, first + CHUNK).map((one) => one.row));
        bodies.push(body);
      }
      for (const body of [...table.tBodies]) body.remove();
      table.append(...bodies);
      const of = found.length === entries.length ? "" : ` of ${entries.length.toLocaleString("en")}`;
      find("#shown").textContent = `${found.length.toLocaleString("en")}${of} case${entries.length === 1 ? "" : "s"}`;
      find("#none").hidden = found.length > 0;
    }

    const head = find("#by-time");
    const sort = document.createElement("button");
    sort.type = "button";
    const say = () => {
      sort.textContent = `time ${longest > 0 ? "▼" : longest < 0 ? "▲" : "↕"}`;
      head.setAttribute("aria-sort", longest > 0 ? "descending" : longest < 0 ? "ascending" : "none");
    };
    sort.addEventListener("click", () => {
      longest = longest > 0 ? -1 : longest < 0 ? 0 : 1;
      say();
      show();
    });
    head.replaceChildren(sort);
    say();

    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(show));
    find("#none button").addEventListener("click", () => { form.reset(); find("#search").focus(); });
    form.hidden = false;
  }

  themes();
  failures();
  prints();
  cases();
  addEventListener("hashchange", follow);
  follow();
})();
