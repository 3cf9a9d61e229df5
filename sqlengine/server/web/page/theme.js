// Before anything is drawn, so that the page does not flash. What was chosen is kept in this browser.
(function () {
  let kept = null;
  try { kept = localStorage.getItem("theme"); } catch { /* a browser that keeps nothing */ }
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
