document.addEventListener("change", event => {
  const series = event.target.dataset.toggle;
  if (series === undefined) return;
  for (const mark of event.target.closest(".scheme").querySelectorAll(`.charts [data-k="${series}"]`)) {
    mark.classList.toggle("off", !event.target.checked);
  }
});
