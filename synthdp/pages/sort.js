"use strict";
// Headings of table.sortable become buttons. What a cell says sorts it, or its data-value where it has one;
// rows of class "group" or "mean" stay where they are. Without this script the tables stand as they were written.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.querySelectorAll("thead th[scope=col]")];
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      for (const body of table.tBodies) arrange(body, Number(head.dataset.column ?? head.cellIndex), sign);
    });
  }
}

function arrange(body, column, sign) {
  const rows = [...body.rows].filter((row) => !row.matches(".group, .mean"));
  const last = body.querySelector("tr.mean");
  const key = (row) => (row.cells[column].dataset.value ?? row.cells[column].textContent).trim();
  const number = (row) => Number(key(row).replaceAll(",", "") || NaN);
  const numeric = rows.some((row) => !Number.isNaN(number(row)));
  rows.sort((a, b) => {
    const [x, y] = [number(a), number(b)];
    if (numeric && Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    if (numeric && !Number.isNaN(x)) return sign * (x - y || 0);
    return sign * key(a).localeCompare(key(b), "en", { numeric: true });
  });
  for (const row of rows) body.insertBefore(row, last);
}
