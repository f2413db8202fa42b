"use strict";
// Everything is on the page without this; it adds finding, sorting and folding.
const FOLDED_ROWS = 12;
for (const table of document.querySelectorAll(".scroll table")) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const list = table.closest(".list");
  const title = list.querySelector("h3").firstChild.textContent.trim();
  const fold = () => Array.from(body.rows).forEach((row, at) => row.classList.toggle("deep", at >= FOLDED_ROWS));
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.order ?? cell.firstChild?.textContent?.trim() ?? "";
    const number = Number(text.replaceAll(",", ""));
    return text !== "" && !Number.isNaN(number) ? number : text;
  };
  if (rows.length > 1) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sorted = rows.map((row) => [key(row, column), row]).sort(([a], [b]) => {
          if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
          return typeof a === "number" ? -1 : 1;
        });
        if (down) sorted.reverse();
        body.append(...sorted.map(([, row]) => row));
        fold();
      });
    });
  }
  if (rows.length > 5) {
    const tools = document.createElement("div");
    tools.className = "tools";
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "Find in these rows";
    input.setAttribute("aria-label", `Find in ${title}`);
    const found = document.createElement("span");
    found.setAttribute("role", "status");
    tools.append(input, found);
    list.querySelector(".scroll").before(tools);
    const texts = new Map(rows.map((row) => [row, [row.textContent, ...Array.from(row.querySelectorAll("[title]"), (part) => part.title)].join(" ").toLowerCase()]));
    let open = rows.length <= FOLDED_ROWS + 3;
    const all = document.createElement("button");
    all.type = "button";
    all.className = "all";
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let number = 0;
      for (const row of rows) {
        const fits = words.every((word) => texts.get(row).includes(word));
        row.classList.toggle("filtered", !fits);
        number += fits;
      }
      found.textContent = words.length ? `${number} of ${rows.length}` : "";
      table.classList.toggle("folded", !open && !words.length);
      all.textContent = open ? "Show fewer" : `Show all ${rows.length} rows`;
      all.hidden = rows.length <= FOLDED_ROWS + 3 || words.length > 0;
    };
    all.addEventListener("click", () => { open = !open; show(); });
    input.addEventListener("input", show);
    list.querySelector(".scroll").after(all);
    fold();
    show();
  }
}
