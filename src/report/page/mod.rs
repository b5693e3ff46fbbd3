//! The page: one HTML file that needs no network.

mod environment;
mod escape;
mod sweep;
mod table;
mod warnings;

pub(super) use escape::escape;

use self::environment::{environment, resources};
use self::sweep::section;
use self::warnings::warnings;
use super::plot::css;
use super::words::{ceiling_words, outcomes, several_seeds};
use crate::analyse::sweeps;
use crate::record::Results;

/// The whole of a results file as one page.
pub fn html(results: &Results) -> String {
    let several_seeds = several_seeds(results);
    let sweeps = sweeps(results);
    let sections: String =
        sweeps.iter().enumerate().map(|(index, sweep)| section(results, sweep, index, several_seeds)).collect();
    let links: String = sweeps
        .iter()
        .enumerate()
        .map(|(index, sweep)| {
            format!("<li><a href=\"#sweep{index}\">{}</a></li>", escape(&sweep::title(sweep, several_seeds)))
        })
        .collect();
    let warnings = warnings(results);
    let title = format!("MoE GEMM kernels on {}", results.device.name);
    [
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">",
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">",
        // The page must not reach for anything outside itself.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline';script-src 'unsafe-inline';img-src data:\">",
        "<link rel=\"icon\" href=\"data:,\">",
        &format!("<title>{}</title><style>{}{}</style></head><body>\n", escape(&title), css(":root"), include_str!("style.css")),
        "<a class=\"skip\" href=\"#main\">To the results</a>",
        &format!("<header><h1>{}</h1><p>{}</p><p>{}</p></header>\n", escape(&title), escape(&ceiling_words(results)), escape(&outcomes(results).join(" "))),
        &format!("<nav aria-label=\"Sections\"><ul>{links}<li><a href=\"#resources\">Kernels</a></li><li><a href=\"#environment\">Environment</a></li></ul></nav>\n"),
        "<main id=\"main\">",
        &warnings,
        &sections,
        &resources(results),
        &environment(results),
        "</main>",
        &format!("<script>{}</script></body></html>\n", include_str!("script.js")),
    ]
    .concat()
}
