// A whole row leads to its detail; its first words are the real link. Text can still be selected.

export function startRows() {
  document.addEventListener("click", (event) => {
    const row = event.target.closest("[data-href]");
    if (!row || event.defaultPrevented || event.target.closest("a, button, input, label, summary, [role=option]")) return;
    if (String(getSelection())) return;
    const link = row.querySelector(`a[href="${CSS.escape(row.dataset.href)}"]`) || row.querySelector("a");
    if (event.metaKey || event.ctrlKey) window.open(row.dataset.href, "_blank");
    else if (link) link.click();
    else location.assign(row.dataset.href);
  });
}
